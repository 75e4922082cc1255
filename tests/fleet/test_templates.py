"""Test templates: named, inline and short forms are equivalent; rules refuse invalid ones."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gpufleet import fleet
from gpufleet.errors import InputError

DIGEST = "sha256:" + "a" * 64
NVIDIA = {"driver": {"vendor": "nvidia"}, "container_toolkit": True}
SERVER = {"image": f"quay.io/team/server@{DIGEST}", "gpus": "all", "ports": [8000]}


@pytest.fixture
def declare_template(spec, tmp_path):
    """Parse the spec with templates and other keys put in; its pool gets the template ``t``."""

    def run(template, **more):
        document = spec | {"templates": {"t": template}} | more
        document["pools"] = [document["pools"][0] | {"template": "t"}]
        return fleet.parse_fleet(document, stack="test", root=tmp_path)

    return run


def test_named_inline_and_short_forms_are_equivalent(declare_template):
    application = {"containers": [SERVER]}
    short = declare_template(NVIDIA | application)
    inline = declare_template({"software": NVIDIA, "application": application})
    named = declare_template(
        {"software": "nv", "application": "serve", "hardware": "big"},
        software_profiles={"nv": NVIDIA},
        applications={"serve": application},
        hardware_profiles={"big": {}},
    )
    assert short.resolve_blueprint("t") == inline.resolve_blueprint("t") == named.resolve_blueprint("t")
    assert short.resolve_blueprint("t").application.containers[0].effective_name == "server"


def test_documented_template_is_accepted(declare_template):
    template = {
        "driver": {"vendor": "nvidia", "branch": "auto"},
        "container_toolkit": True,
        "volumes": [{"name": "models", "size_gib": 1000, "kind": "nvme"}],
        "containers": [{"image": "example.org/server:1", "gpus": "all", "ports": [8000]}],
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
        ({"containers": [{"image": "a"}]}, "podman"),
        (
            {"software": {"container_engine": "docker"}, "application": {"containers": [{"image": "a"}]}},
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


def application_template(*containers, **keys):
    return {"container_toolkit": True, "application": {"containers": list(containers)} | keys}


def container_template(**keys):
    """Return a template of one container."""
    return {"software": {"container_toolkit": True}, "application": {"containers": [{"image": "a"} | keys]}}


def two_containers_template(first, second=None, **keys):
    pair = [{"image": "a"} | first, {"image": "b"} | (second or {})]
    return {"software": {"container_toolkit": True}, "application": {"containers": pair} | keys}


DOCKER = {"container_engine": "docker", "container_toolkit": True}
REFUSED = [
    ("profile-exists", {"software": "nw"}, "; declare it under software_profiles"),
    (
        "engine-for-containers",
        {"software": {"container_engine": "none"}, "application": {"containers": [{"image": "a"}]}},
        "template t has containers",
    ),
    (
        "engine-for-containers",
        {"software": {"container_engine": "none", "container_toolkit": True}},
        "templates.t.software.container_engine: container_engine is none, but container_toolkit is true",
    ),
    ("gpus-need-toolkit", {"containers": [{"image": "a", "gpus": 1}]}, "templates.t.containers[0].gpus"),
    (
        "podman-only",
        {"software": DOCKER, "application": {"units": "quadlet"}},
        "application.units: units is quadlet, but template t has docker",
    ),
    (
        "podman-only",
        {
            "software": DOCKER,
            "application": {"containers": [{"image": "a", "secrets": [{"name": "s", "kind": "podman"}]}]},
        },
        "secrets[0].kind: kind is podman, but template t has docker",
    ),
    (
        "unique-containers",
        two_containers_template({}, {"image": "x/a"}),
        "containers[1]: the name 'a' is used twice",
    ),
    (
        "ports-clash",
        two_containers_template({"ports": [80]}, {"ports": ["80:8080"]}),
        "port 80/tcp of the node is already used by a",
    ),
    ("ports-clash", container_template(ports=["22:2222"]), "is already used by SSH"),
    ("ports-by-host-network", container_template(ports=["80:8080"], network="host"), "say 8080"),
    ("ports-by-host-network", container_template(ports=[80], network="none"), "network is none"),
    (
        "mounts-exist",
        container_template(mounts=[{"volume": "v", "target": "/v"}]),
        "mounts[0].volume: volume 'v' is not declared",
    ),
    (
        "mounts-exist",
        container_template(mounts=[{"source": "/a", "target": "/v"}, {"source": "/b", "target": "/v"}]),
        "mounts[1].target: /v is mounted twice",
    ),
    ("depends-in-order", container_template(depends=["b"]), "depends[0]: container 'b' is not declared"),
    (
        "depends-in-order",
        two_containers_template({"depends": ["b"]}, {"depends": ["a"]}),
        "depend on each other: ",
    ),
    (
        "secrets-by-reference",
        container_template(env={"HF_TOKEN": "hf_x"}),
        "env.HF_TOKEN: the value looks like a secret",
    ),
    (
        "driver-for-cards",
        {"driver": {"vendor": "amd"}},
        "installs amd's driver, but train has cards of nvidia",
    ),
    ("gpus-fit", container_template(gpus=9), "the containers need 9 cards, but train has 8"),
    ("gpus-fit", two_containers_template({"gpus": 5}, {"gpus": 4}), "need 9 cards"),
    ("gpus-fit", container_template(gpus=[8]), "need 9 cards"),
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
        two_containers_template({"gpus": [0, 1]}, {"gpus": [1, 2]}),
        two_containers_template({"gpus": "all"}, {"gpus": 8}),
        container_template(ports=[{"host": 80, "address": "127.0.0.1"}, {"host": 80, "address": "10.0.0.1"}]),
        two_containers_template({"ports": [53]}, {"ports": ["53/udp"]}),
        container_template(network="host", ports=[8000]),
        container_template(env={"HF_TOKEN_FILE": "/run/secrets/hf"}),
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
        (container_template(ports=["x"]), "give a port like 8000"),
        (container_template(ports=[70000]), "give at most 65535"),
        (container_template(env={"A": "b\nc"}), "one line without control characters"),
        (container_template(mounts=[{"target": "/v"}]), "exactly one of volume and source"),
        (
            container_template(mounts=[{"source": "/a/../b", "target": "/v"}]),
            "give a path without //, . and ..",
        ),
        (container_template(secrets=[{"name": "s", "env": "A"}]), "env needs kind podman, not file"),
        (container_template(image="a b"), "give an image like"),
        (container_template(gpus=[0, 0]), "names a card twice"),
        (container_template(colour="red"), "unknown key 'colour'; known keys: image, name"),
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
    with pytest.raises(InputError, match=r"applications.a.containers\[0\].ports\[0\]: port 22/tcp"):
        declare_template(
            {"application": "a"}, applications={"a": {"containers": [{"image": "x", "ports": [22]}]}}
        )


@pytest.fixture
def declare_rack(spec, tmp_path):
    """Parse a stack whose only nodes are a rack of two blades with drives of 500 GB."""

    def run(template):
        (tmp_path / "inventory").mkdir(exist_ok=True)
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
        ("gpus-fit", container_template(gpus="all"), "need 1 cards, but blade01 has 0"),
    ],
)
def test_rack_that_violates_its_template_is_reported_once(declare_rack, rule, template, message):
    with pytest.raises(InputError) as excinfo:
        declare_rack(template)
    assert f"(rule {rule})" in str(excinfo.value)
    assert message in str(excinfo.value)
    assert "more)" not in str(excinfo.value)


def test_template_has_the_same_result_for_pool_and_rack(declare_rack, declare_template):
    template = {"application": {"containers": [{"image": "a"}]}}
    assert declare_rack(template).resolve_blueprint("t") == declare_template(template).resolve_blueprint("t")


@pytest.mark.parametrize(
    ("image", "name"),
    [("nginx", "nginx"), ("ghcr.io/a/b_c:1", "b-c"), (f"x/y:2@{DIGEST}", "y"), ("a/9lives", "9lives")],
)
def test_container_is_named_after_its_image(image, name):
    assert fleet.Container(image=image).effective_name == name


def test_port_forms_are_parsed():
    blueprint = fleet.Container(
        image="a", ports=(80, "81:8081", "53/udp", {"host": 9, "address": "127.0.0.1"})
    ).ports
    assert [(port.host, port.container, port.protocol, port.is_loopback_only) for port in blueprint] == [
        (80, 80, "tcp", False),
        (81, 8081, "tcp", False),
        (53, 53, "udp", False),
        (9, 9, "tcp", True),
    ]


def test_notes_list_untagged_images(declare_template):
    containers = fleet.list_planning_notes(declare_template({"containers": [{"image": "x:1"}]}))
    assert "images without a digest may differ from node to node: x:1" in containers


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


@pytest.mark.parametrize(
    "image",
    ["nginx", "localhost:5000/x", "Registry.Example:5000/team/a__b/c-d.e:V1.2_3", f"quay.io/a/b@{DIGEST}"],
)
def test_valid_image_name_is_accepted(image):
    assert fleet.Container(image=image).image == image


@pytest.mark.parametrize(
    "image", ["Quay.io/Team/Server", "nginx:", "a:b:c", "-x", "http://x/y", "x@sha256:a"]
)
def test_invalid_image_name_is_refused(image):
    with pytest.raises(ValidationError, match="its name in lower case"):
        fleet.Container(image=image)


@pytest.mark.parametrize("address", ["999.1.1.1", "256.0.0.1", "1.1.1", "01.1.1.1"])
def test_invalid_address_is_refused(declare_template, address):
    with pytest.raises(InputError, match=r"ports\[0\].address: is .*; give an IPv4 address like 127.0.0.1"):
        declare_template(container_template(ports=[{"host": 80, "address": address}]))


def test_invalid_step_is_reported_with_its_key(declare_template):
    with pytest.raises(InputError, match=r"templates\.t\.software: cuda needs driver\.vendor nvidia"):
        declare_template({"software": {"driver": {"vendor": "amd"}, "cuda": "12.8"}})
