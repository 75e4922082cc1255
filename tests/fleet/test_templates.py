"""Test templates: named, inline and short forms are equivalent; rules refuse invalid ones."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gpufleet import fleet
from gpufleet.errors import InputError

NVIDIA = {"driver": {"vendor": "nvidia"}, "container_toolkit": True}
FILES = {
    "server.container": "[Container]\nImage=server:1\nAddDevice=nvidia.com/gpu=all\nPublishPort=8000:8000\n",
    "web.container": "[Container]\nImage=web\nPublishPort=127.0.0.1:8000:80\nEnvironment=HF_TOKEN_FILE=/run/hf\n",
    "plain.container": "[Container]\nImage=a\n",
    "llm/compose.yaml": "services: {server: {image: a, ports: ['80:80', '8000:8000/udp']}}\n",
    "llm.yaml": "services: {server: {image: a, gpus: all}}\n",
    "nine.container": "[Container]\nImage=a\nAddDevice=nvidia.com/gpu=8\n",
    "host.yaml": "services: {a: {image: a, network_mode: host, ports: ['80:80']}}\n",
    "x.yml": "services: {a: {image: a}}\n",
    "ssh.container": "[Container]\nImage=a\nPublishPort=22:22\n",
    "twice.yaml": "services: {a: {image: a, ports: ['80:80']}, b: {image: b, ports: [{target: 1, published: 80}]}}\n",
    "secret.container": "[Container]\nImage=a\nEnvironment=HF_TOKEN=hf_x\n",
}


def write_files(root):
    """Write the container files that templates name into a project."""
    for path, text in FILES.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)


@pytest.fixture
def declare_template(spec, tmp_path):
    """Parse the spec with templates and other keys put in; its pool gets the template ``t``."""

    def run(template, **more):
        document = spec | {"templates": {"t": template}} | more
        document["pools"] = [document["pools"][0] | {"template": "t"}]
        write_files(tmp_path)
        return fleet.parse_fleet(document, stack="test", root=tmp_path)

    return run


def test_named_inline_and_short_forms_are_equivalent(declare_template):
    application = {"container_files": ["server.container"]}
    short = declare_template(NVIDIA | application)
    inline = declare_template({"software": NVIDIA, "application": application})
    named = declare_template(
        {"software": "nv", "application": "serve", "hardware": "big"},
        software_profiles={"nv": NVIDIA},
        applications={"serve": application},
        hardware_profiles={"big": {}},
    )
    assert short.resolve_blueprint("t") == inline.resolve_blueprint("t") == named.resolve_blueprint("t")
    (file,) = short.resolve_blueprint("t").container_files
    assert (file.text, file.containers[0].name) == (FILES["server.container"], "server")


def test_documented_template_is_accepted(declare_template):
    template = {
        "driver": {"vendor": "nvidia", "branch": "auto"},
        "container_toolkit": True,
        "volumes": [{"name": "models", "size_gib": 1000, "kind": "nvme"}],
        "container_files": ["server.container"],
        "burn_in": "standard",
    }
    blueprint = declare_template(template).resolve_blueprint("t")
    assert (blueprint.container_engine, blueprint.software.driver.vendor, blueprint.burn_in) == (
        "podman",
        "nvidia",
        "standard",
    )


@pytest.mark.parametrize(
    ("template", "engine"),
    [
        ({}, "none"),
        (NVIDIA, "podman"),
        ({"container_files": ["plain.container"]}, "podman"),
        ({"container_files": ["llm/compose.yaml"]}, "docker"),
        (
            {"software": {"container_engine": "docker"}, "application": {"container_files": ["x.yml"]}},
            "docker",
        ),
    ],
)
def test_container_engine_is_chosen_by_the_template(declare_template, template, engine):
    assert declare_template(template).resolve_blueprint("t").container_engine == engine


@pytest.mark.parametrize(
    ("software", "vendor"),
    [
        ({}, "auto"),
        ({"driver": {"branch": "580"}}, "auto"),
        ({"driver": {"vendor": "none"}}, "none"),
        ({"cuda": "12.8"}, "nvidia"),
        ({"driver": {"module": "open"}}, "nvidia"),
        ({"rocm": "7.2"}, "amd"),
    ],
)
def test_driver_vendor_follows_from_the_requested_software_or_is_left_to_the_cards(software, vendor):
    assert fleet.SoftwareProfile.model_validate(software).driver_vendor == vendor


def software_template(**keys):
    return {"software": {"driver": {"vendor": "nvidia"}} | keys}


def files_template(*paths, **software):
    """Return a template of container files."""
    return {
        "software": {"container_toolkit": True} | software,
        "application": {"container_files": list(paths)},
    }


REFUSED = [
    ("profile-exists", {"software": "nw"}, "; declare it under software_profiles"),
    (
        "engine-for-containers",
        files_template("plain.container", container_engine="none", container_toolkit=False),
        "template t has container_files",
    ),
    (
        "engine-for-containers",
        {"software": {"container_engine": "none", "container_toolkit": True}},
        "templates.t.software.container_engine: container_engine is none, but container_toolkit is true",
    ),
    (
        "gpus-need-toolkit",
        {"container_files": ["plain.container", "server.container"]},
        "templates.t.container_files[1]: server.container: server requests GPUs, but template t has no",
    ),
    (
        "engine-of-files",
        files_template("plain.container", container_engine="docker"),
        "application.container_files[0]: plain.container needs podman, but template t has docker",
    ),
    (
        "engine-of-files",
        files_template("llm.yaml", "plain.container"),
        "container_files[1]: plain.container needs podman, but template t has docker",
    ),
    (
        "unique-container-files",
        files_template("llm.yaml", "llm/compose.yaml"),
        "container_files[1]: the name 'llm.yaml' is used twice",
    ),
    (
        "unique-container-files",
        {"volumes": [{"name": "v", "size_gib": 1}, {"name": "v", "size_gib": 2}]},
        "volumes[1]: the name 'v' is used twice",
    ),
    (
        "ports-clash",
        files_template("server.container", "web.container"),
        "container_files[1]: web.container: port 8000/tcp of the node is already used by server",
    ),
    ("ports-clash", files_template("twice.yaml"), "port 80/tcp of the node is already used by a"),
    ("ports-clash", files_template("ssh.container"), "is already used by SSH"),
    (
        "secrets-by-reference",
        files_template("secret.container"),
        "secret.container: the value of HF_TOKEN looks like a secret",
    ),
    (
        "driver-for-cards",
        {"driver": {"vendor": "amd"}},
        "installs amd's driver, but train has cards of nvidia",
    ),
    (
        "gpus-fit",
        files_template("server.container", "nine.container"),
        "the containers need 9 cards, but train has 8",
    ),
    (
        "hardware-fits",
        {"hardware": {"machines": ["g5.2xlarge"]}},
        "is for g5.2xlarge, but train is p4d.24xlarge",
    ),
    (
        "hardware-fits",
        {"hardware": {"accelerators": {"vendor": "amd"}}},
        "needs 1 amd cards, but train has 0",
    ),
    (
        "hardware-fits",
        {"hardware": {"accelerators": {"model": "A100 40GB SXM", "count": 16}}},
        "but train has 8",
    ),
]


@pytest.mark.parametrize(
    ("rule", "template", "message"), REFUSED, ids=[f"{r[0]}-{n}" for n, r in enumerate(REFUSED)]
)
def test_rule_refuses_an_invalid_template(declare_template, rule, template, message):
    with pytest.raises(InputError) as excinfo:
        declare_template(template)
    assert f"(rule {rule})" in str(excinfo.value)
    assert message in str(excinfo.value)


@pytest.mark.parametrize(
    "template",
    [
        files_template("server.container", "plain.container"),
        files_template("llm/compose.yaml", "host.yaml"),
        {"container_files": ["web.container", "plain.container"]},
        software_template(cuda="12.8", mig="1g.10gb"),
        {"hardware": {"machines": ["p4d.24xlarge"], "storage": {"layout": "raid0"}, "mtu": 9001}},
    ],
)
def test_rules_accept_a_valid_template(declare_template, template):
    assert declare_template(template).pools[0].template == "t"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            {"software": {"driver": {"vendor": "none"}, "cuda": "12.8"}},
            "cuda needs driver.vendor nvidia, not none",
        ),
        (
            {"software": {"cuda": "12.8", "rocm": "7.2"}},
            "rocm needs amd's driver, and cuda needs nvidia's; remove rocm or cuda",
        ),
        (
            {"driver": {"vendor": "none", "branch": "580"}},
            "branch is set, but vendor is none, so no driver is installed; remove branch, or set vendor",
        ),
        (
            {"driver": {"vendor": "none", "module": "open"}},
            "module is set, but vendor is none, so no driver is installed",
        ),
        (
            {"software": {"driver": {"vendor": "amd"}, "mig": "1g.10gb"}},
            "mig needs driver.vendor",
        ),
        (software_template(rocm="7.2"), "rocm needs driver.vendor amd, not nvidia"),
        (software_template(driver={"vendor": "amd", "module": "open"}), "only NVIDIA's driver has a choice"),
        ({"software": {}, "driver": {}}, "has both software and driver; put driver into software"),
        ({"application": {}, "volumes": []}, "has both application and volumes"),
        ({"container_files": ["/etc/a.container"]}, "give a file of the project like"),
        ({"container_files": ["../a.container"]}, "give a file of the project like"),
        ({"container_files": ["a.service"]}, "give a file of the project like"),
        (
            {"container_files": ["no.container"]},
            "templates.t.container_files[0]: no.container not found; give its path in the project",
        ),
        (
            {"containers": [{"image": "a"}]},
            "'containers' was replaced by 'container_files'; name a compose or quadlet file under container_files:",
        ),
        (
            {"application": {"units": "plain"}},
            "templates.t.application.units: 'units' was replaced by 'container_files'; name a compose",
        ),
        ({"hardware": {"mtu": 100}}, "is 100; give at least 1280"),
        ({"hardware": {"machines": ["nope"]}}, "'nope' is not a known machine"),
        ({"software": {"cuda": 12.8}}, "give text (quote it"),
    ],
)
def test_invalid_value_is_refused(declare_template, template, message):
    with pytest.raises(InputError) as excinfo:
        declare_template(template)
    assert message in str(excinfo.value)
    assert "\n" not in str(excinfo.value)


def test_error_in_a_named_profile_names_its_place(declare_template):
    with pytest.raises(InputError, match=r"applications.a.container_files\[0\]: ssh.container: port 22/tcp"):
        declare_template({"application": "a"}, applications={"a": {"container_files": ["ssh.container"]}})


@pytest.fixture
def declare_rack(spec, tmp_path):
    """Parse a stack whose only nodes are a rack of two blades with drives of 500 GB."""

    def run(template):
        (tmp_path / "inventory").mkdir(exist_ok=True)
        write_files(tmp_path)
        (tmp_path / "inventory/r.yaml").write_text(
            "plugin: gpufleet.fleet.rack\nname: r\nkind: blades\nsite: lab\nmachine: Compute Blade CM4 8GB\n"
            "storage_gb: 500\nnodes: blade[01-02]\n"
        )
        document = spec | {
            "pools": [],
            "racks": [{"name": "r", "template": "t"}],
            "templates": {"t": template},
        }
        return fleet.parse_fleet(document, stack="test", root=tmp_path)

    return run


@pytest.mark.parametrize(
    ("rule", "template", "message"),
    [
        (
            "volumes-fit",
            {"volumes": [{"name": "v", "size_gib": 600, "kind": "nvme"}]},
            "600 GiB, but blade01 has 466",
        ),
        (
            "driver-for-cards",
            {"driver": {"vendor": "nvidia"}},
            "racks[0].template: the template installs nvidia's driver, but blade",
        ),
        (
            "driver-for-cards",
            {"software": {"cuda": "12.8"}},
            "racks[0].template: the template installs nvidia's driver, but blade",
        ),
        ("gpus-fit", files_template("server.container"), "need 1 cards, but blade01 has 0"),
    ],
)
def test_rack_that_violates_its_template_is_reported_once(declare_rack, rule, template, message):
    with pytest.raises(InputError) as excinfo:
        declare_rack(template)
    assert f"(rule {rule})" in str(excinfo.value)
    assert message in str(excinfo.value)
    assert "more)" not in str(excinfo.value)


def test_template_has_the_same_result_for_pool_and_rack(declare_rack, declare_template):
    template = {"application": {"container_files": ["plain.container"]}}
    assert declare_rack(template).resolve_blueprint("t") == declare_template(template).resolve_blueprint("t")


def test_notes_list_untagged_images(declare_template):
    notes = fleet.list_planning_notes(declare_template({"container_files": ["plain.container"]}))
    assert "images without a digest may differ from node to node: a" in notes


@pytest.mark.parametrize(
    ("declared", "devices", "profiles"),
    [
        ("1g.10gb", "all", "1g.10gb"),
        ({"3g.40gb": 1, "1g.10gb": 4}, "all", {"3g.40gb": 1, "1g.10gb": 4}),
        ([{"devices": [0, 1], "profiles": "7g.80gb"}], (0, 1), "7g.80gb"),
    ],
)
def test_mig_forms_are_parsed(declared, devices, profiles):
    (cards,) = fleet.SoftwareProfile(driver={"vendor": "nvidia"}, mig=declared).mig
    assert (cards.devices, cards.profiles) == (devices, profiles)


@pytest.mark.parametrize("declared", ["10gb", {"10gb": 1}, [{"profiles": "10gb"}]])
def test_mig_profile_must_have_nvidias_spelling(declared):
    with pytest.raises(ValidationError, match=r"a MIG profile like 1g\.10gb"):
        fleet.SoftwareProfile(driver={"vendor": "nvidia"}, mig=declared)


def test_invalid_step_is_reported_with_its_key(declare_template):
    with pytest.raises(InputError, match=r"templates\.t\.software: cuda needs driver\.vendor nvidia"):
        declare_template({"software": {"driver": {"vendor": "amd"}, "cuda": "12.8"}})
