"""Test units of applications: golden files, and quadlets that podman's generator accepted."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.fleet import Application, Container
from gpufleet.operations.units import ContainerEngine, assign_gpu_cards, render_application_units
from gpufleet.operations.units.quoting import quote_systemd_argument

CASES = sorted((Path(__file__).parents[1] / "cases/operations/units").glob("*/case.json"))
PODMAN = ContainerEngine("podman", (4, 3, 1), vendor="nvidia")


def rendered(case):
    engine_fields = case["engine"]
    engine = ContainerEngine.from_reported_version(
        engine_fields["kind"],
        engine_fields["version"],
        cdi=engine_fields.get("cdi", True),
        vendor=engine_fields.get("vendor", "none"),
    )
    return render_application_units(Application.model_validate(case["application"]), engine)


@pytest.mark.parametrize("path", CASES, ids=[path.parent.name for path in CASES])
def test_rendered_units_match_their_golden_files(path):
    case = json.loads(path.read_text())
    rendered_units = rendered(case)
    document = rendered_units.as_json()
    services = [unit["service"] for unit in document.pop("units")]
    assert document | {"services": services} == case["expected"]
    files = {
        file.name: file.read_text()
        for file in path.parent.iterdir()
        if file.suffix in {".container", ".service"}
    }
    assert {Path(unit.path).name: unit.content for unit in rendered_units.units} == files


def exec_start(text):
    """Return the arguments of a unit's ExecStart, parsed like systemd.service(5)."""
    line = re.search(r"^ExecStart=((?:.*\\\n)*.*)$", text, re.MULTILINE)[1].replace("\\\n", " ")
    return [argument.replace("%%", "%").replace("$$", "$") for argument in shlex.split(line)]


QUADLETS = [path for path in CASES if path.parent.name.startswith("quadlet")]


@pytest.mark.parametrize("path", QUADLETS, ids=[path.parent.name for path in QUADLETS])
def test_quadlet_and_plain_unit_run_the_same_command(path):
    """Compare the recorded answer of the real generator with the unit that we write for a podman without one."""
    case = json.loads(path.read_text())
    case["engine"]["version"] = "4.3.1"
    for unit in rendered(case).units:
        generated = (path.parent / Path(unit.path).with_suffix(".made").name).read_text()
        our_arguments, generated_arguments = exec_start(unit.content), exec_start(generated)
        image = next(
            application.image
            for application in applications(case)
            if f"gpufleet-{application.effective_name}.service" == unit.service
        )
        assert (
            our_arguments[our_arguments.index(image) :]
            == generated_arguments[generated_arguments.index(image) :]
        )
        assert options(our_arguments[: our_arguments.index(image)]) == options(
            generated_arguments[: generated_arguments.index(image)]
        )


def applications(case):
    return Application.model_validate(case["application"]).containers


ABOUT_THE_SERVICE = ("--cidfile", "--cgroups", "--sdnotify")
LONG = {"-v": "--volume"}


def options(arguments):
    """Return the options of a run as name=value, short forms spelt out, without those of systemd's own business."""
    names, rest = set(), list(arguments)
    while rest:
        head = LONG.get(rest[0], rest[0])
        takes = len(rest) > 1 and head.startswith("--") and "=" not in head and not rest[1].startswith("-")
        names.add(f"{head}={rest[1]}" if takes and head not in ("--rm", "--replace") else head)
        rest = rest[2 if takes and head not in ("--rm", "--replace") else 1 :]
    return {name for name in names if not name.startswith(ABOUT_THE_SERVICE)}


@pytest.mark.parametrize("path", QUADLETS, ids=[path.parent.name for path in QUADLETS])
def test_generated_service_keeps_restart_policy_and_order(path):
    for path_of_generated in path.parent.glob("*.made"):
        text = path_of_generated.read_text()
        quadlet = path_of_generated.with_suffix(".container").read_text()
        for key in (
            "Requires",
            "RequiresMountsFor",
            "AssertPathExists",
            "ExecStartPre",
            "Restart",
            "TimeoutStartSec",
        ):
            for line in re.findall(rf"^{key}=.*$", quadlet, re.MULTILINE):
                assert line in text.splitlines()


@pytest.mark.parametrize("path", CASES, ids=[path.parent.name for path in CASES])
def test_units_have_only_sections_known_to_systemd(path):
    for file in path.parent.iterdir():
        if file.suffix in {".container", ".service"}:
            parser = configparser.RawConfigParser(strict=False, delimiters="=")
            parser.optionxform = str
            parser.read_string(file.read_text())
            assert set(parser.sections()) - {"Container"} == {"Unit", "Service", "Install"}


def test_no_unit_contains_a_secret_and_secret_files_are_required():
    app = Application(
        containers=[{"image": "a", "secrets": [{"name": "tls"}, {"name": "hf", "kind": "podman"}]}]
    )
    (unit,) = render_application_units(app, PODMAN).units
    assert "AssertPathExists=/etc/gpufleet/secrets/tls" in unit.content
    assert "--secret=hf,type=mount" in unit.content


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain-1.0=/x", "plain-1.0=/x"),
        ("two words", '"two words"'),
        ("", '""'),
        ("100%", "100%%"),
        ("$HOME", '"$$HOME"'),
        ('say "x"', '"say \\"x\\""'),
        ("a\\b", '"a\\\\b"'),
        ("it's", '"it\'s"'),
    ],
)
def test_arguments_reach_the_container_engine_unchanged(text, written):
    assert quote_systemd_argument(text) == written


def test_counted_cards_exclude_those_assigned_by_index():
    containers = [
        Container(image=name, gpus=gpus) for name, gpus in (("a", 2), ("b", (0, 3)), ("c", 1), ("d", "all"))
    ]
    assert assign_gpu_cards(containers) == {"a": (1, 2), "b": (0, 3), "c": (4,), "d": None}


@pytest.mark.parametrize(
    ("engine", "application", "message"),
    [
        (PODMAN, {"units": "quadlet"}, "podman 4.3.1 does not support quadlets"),
        (
            ContainerEngine("podman", (5, 0)),
            {"containers": [{"image": "a", "gpus": 1}]},
            "the node has no GPU driver",
        ),
    ],
)
def test_unsupported_feature_is_refused_in_one_line(engine, application, message):
    with pytest.raises(InputError, match=message):
        render_application_units(Application.model_validate(application), engine)


@pytest.mark.parametrize(("kind", "version"), [("none", "1"), ("podman", ""), ("lxc", "5.0")])
def test_missing_engine_is_reported(kind, version):
    with pytest.raises(InputError):
        ContainerEngine.from_reported_version(kind, version)


@pytest.mark.parametrize(
    ("version", "quadlet"), [("4.3.1", False), ("4.4", True), ("4.9.3", True), ("3.4.4", False)]
)
def test_quadlets_are_used_from_podman_4_4(version, quadlet):
    assert ContainerEngine.from_reported_version("podman", version).has_quadlet_support is quadlet
    assert not ContainerEngine.from_reported_version("docker", version).has_quadlet_support
