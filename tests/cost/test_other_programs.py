"""Test any Python program as ``--project``: failures are reported in one line."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.errors import EnvironmentFault, InputError

VOLUME = (
    'import pulumi_aws as aws\naws.ebs.Volume("v", availability_zone="us-east-1a", size=100, type="gp3")\n'
)


@pytest.fixture
def write_program(tmp_path):
    """Write a program into a project of its own; returns the project."""

    def write(text, *, yaml="name: other\nruntime: python\n", **files):
        (tmp_path / "Pulumi.yaml").write_text(yaml)
        (tmp_path / "__main__.py").write_text(text)
        for name, content in files.items():
            (tmp_path / f"{name.replace('_', '.')}.yaml").write_text(content)
        return tmp_path

    return write


def machines(root, stack="dev", **limits):
    return {r.name: r for r in cost.evaluate_program(root, stack, **limits) if not r.is_provider_resource}


def test_stack_without_a_file_is_evaluated_if_no_stack_has_one(write_program):
    assert set(machines(write_program(VOLUME))) == {"v"}


def test_misspelt_stack_is_refused_if_others_have_files(write_program):
    with pytest.raises(InputError, match="stack 'dve' not found; stacks here: dev"):
        machines(write_program(VOLUME, Pulumi_dev="config: {}\n"), "dve")


def test_missing_configuration_file_is_named(write_program, tmp_path):
    with pytest.raises(InputError, match=r"nosuch\.yaml: file not found; give the path"):
        machines(write_program(VOLUME), config_file=tmp_path / "nosuch.yaml")


def test_program_may_print_and_read_standard_input(write_program):
    assert set(machines(write_program(f"print('x' * 100000)\nimport sys\nsys.stdin.read()\n{VOLUME}"))) == {
        "v"
    }


def test_endless_program_is_stopped(write_program):
    started = time.monotonic()
    with pytest.raises(EnvironmentFault, match="did not end within 3 s"):
        machines(write_program("while True: pass\n"), limit_s=3)
    assert time.monotonic() - started < 60  # it is ended, however long this machine takes to say so


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import pulumi\npulumi.Config().require('size')\n",
            "__main__.py:2: .*ConfigMissingError: Missing required",
        ),
        ("raise ValueError('first\\nsecond')\n", "__main__.py:1: .*ValueError: first"),
        ("import no_such_package\n", "__main__.py:1: .*No module named 'no_such_package'"),
        ("import money\n", "__main__.py:1: .*No module named 'money'"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("def broken(:\n", "SyntaxError"),
    ],
)
def test_failing_program_is_reported_in_one_line(write_program, text, message):
    with pytest.raises(InputError, match=message) as excinfo:
        machines(write_program(text))
    assert "\n" not in str(excinfo.value)


def test_killed_program_is_reported(write_program):
    with pytest.raises(InputError, match="ended early: it printed nothing; if `pulumi preview` succeeds"):
        machines(write_program("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"))


def test_other_program_language_is_refused(write_program):
    with pytest.raises(InputError, match="the program is in dotnet, which is not evaluated"):
        machines(write_program("", yaml="name: other\nruntime:\n  name: dotnet\n"))


@pytest.mark.parametrize("runtime", ["", " {options: {virtualenv: venv}}", " [python]", " {name: 3}"])
def test_runtime_without_the_name_of_a_language_is_refused(write_program, runtime):
    with pytest.raises(InputError, match=r"Pulumi\.yaml:2: runtime: names no language; give python"):
        machines(write_program("", yaml=f"name: other\nruntime:{runtime}\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("config:\n  a: 1\n  foo: [\n", "Pulumi.dev.yaml:4: is not YAML: expected the node content"),
        ("config:\n  a: 1\n  a: 2\n", 'Pulumi.dev.yaml:3: is not YAML: found duplicate key "a"'),
        ("# ours\nconfig: [1]\n", "Pulumi.dev.yaml:2: config: must be a mapping of settings; for example"),
        ("aws\n", "Pulumi.dev.yaml:1: must be a mapping of keys; for example"),
        ("config:\n  aws:region: [1]\n", "Pulumi.dev.yaml:2: aws:region: [1] is not a text; give a region"),
        ("config:\n  aws:region:\n", "Pulumi.dev.yaml:2: aws:region: is empty; give a region"),
    ],
)
def test_mistake_in_the_stack_file_has_its_line(write_program, text, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        machines(write_program(VOLUME, Pulumi_dev=text))


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("runtime: python\n", "Pulumi.yaml: name: is missing; give letters, digits"),
        (
            "name: ''\nruntime: python\n",
            "Pulumi.yaml: name: '' is not a project's name; give letters, digits",
        ),
        ("name: a/b\nruntime: python\n", "Pulumi.yaml: name: 'a/b' is not a project's name; give letters"),
        ("name: [\n", "Pulumi.yaml:2: is not YAML: expected the node content"),
        (
            "name: a\nruntime: python\nmain: src\n",
            "src/__main__.py: not found; write the Pulumi program there",
        ),
    ],
)
def test_mistake_in_the_project_file_is_refused_as_the_engine_does(write_program, yaml, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        machines(write_program(VOLUME, yaml=yaml))


def test_second_resource_of_a_name_is_refused_as_the_engine_does(write_program):
    text = f"{VOLUME}aws.ebs.Volume('v', availability_zone='us-east-1a', size=200)\n"
    message = r"^__main__.py:3: Duplicate resource URN 'urn:pulumi:dev::other::aws:ebs/volume:Volume::v': the engine"
    with pytest.raises(InputError, match=message):
        machines(write_program(text))


def test_two_types_or_parents_may_share_a_name(write_program):
    text = (
        "import pulumi, pulumi_aws as aws\naws.Provider('default', region='us-east-1')\n"
        "aws.ebs.Snapshot('v', volume_id='v')\n"
        "for name in 'ab':\n    group = pulumi.ComponentResource(f'x:y:{name}', name)\n"
        "    aws.ebs.Volume('v', availability_zone='a', opts=pulumi.ResourceOptions(parent=group))\n"
    )
    resources = cost.evaluate_program(write_program(text), "dev")
    assert sum(each.type == "aws:ebs/volume:Volume" for each in resources) == 2


def test_settings_come_from_the_project_and_the_stack(write_program):
    text = (
        "import pulumi, pulumi_aws as aws\nc = pulumi.Config()\n"
        "aws.ebs.Volume('v', availability_zone='us-east-1a', size=c.require_int('size'), type=c.require('kind'))\n"
    )
    yaml = "name: other\nruntime: python\nconfig:\n  size: {type: integer, default: 7}\n  other:kind: {value: gp2}\n"
    root = write_program(text, yaml=yaml, Pulumi_dev="config:\n  kind: gp3\n")
    assert machines(root)["v"].inputs["size"] == 7
    assert machines(root)["v"].inputs["type"] == "gp3"


def test_secrets_of_the_stack_are_not_passed_to_the_program(write_program):
    text = (
        "import pulumi, pulumi_aws as aws\n"
        "aws.ec2.Instance('a', instance_type='g5.2xlarge', user_data=pulumi.Config().require('key'))\n"
    )
    root = write_program(text, Pulumi_dev="config:\n  other:key:\n    secure: v1:cipher:text\n")
    assert "cipher" not in repr(machines(root)["a"].inputs)


def test_region_of_the_stack_reaches_the_default_provider(write_program):
    text = "import pulumi_aws as aws\naws.ec2.Instance('a', instance_type='g5.2xlarge', ami='ami-1')\n"
    bill = cost.price_resources(
        cost.evaluate_program(write_program(text, Pulumi_dev="config:\n  aws:region: eu-west-1\n"), "dev")
    )
    assert [charge.region for charge in bill.charges if charge.component == "machine"] == ["eu-west-1"]


def test_program_runs_in_the_virtual_environment_of_its_project(write_program, tmp_path):
    root = write_program(
        VOLUME, yaml="name: other\nruntime:\n  name: python\n  options:\n    virtualenv: mine\n"
    )
    (tmp_path / "mine" / "bin").mkdir(parents=True)
    python = tmp_path / "mine" / "bin" / "python"
    python.write_text("#!/bin/sh\necho this is another python\n")
    python.chmod(0o755)
    (tmp_path / "mine" / "pyvenv.cfg").touch()
    with pytest.raises(EnvironmentFault, match="could not be started: this is another python"):
        machines(root)


def distributions(name, known=()):
    """Return a distribution's name with those that it requires here."""
    known = {*known, name}
    for line in metadata.requires(name) or ():
        required = re.match(r"[\w.-]+", line)[0].lower()
        if "extra ==" not in line and required not in known:
            with suppress(metadata.PackageNotFoundError):  # for another system or Python
                known |= distributions(required, known)
    return known


def copy_distribution(name, target):
    for file in metadata.files(name):
        source = Path(file.locate())
        if ".." in file.parts or not source.is_file():
            continue
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target / file)


def test_confined_program_runs_in_the_virtual_environment_of_its_project(write_program, tmp_path):
    """A real virtual environment, with copies of what a Pulumi program imports."""
    text = (
        "import os, sys, pulumi\n"
        "pulumi.ComponentResource('t:m:C', sys.prefix.rpartition('/')[2], {'root': str(os.listdir('/tmp'))})\n"
    )
    root = write_program(
        text, yaml="name: other\nruntime:\n  name: python\n  options:\n    virtualenv: mine\n"
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "mine")], check=True)
    target = next((tmp_path / "mine/lib").glob("python3*")) / "site-packages"
    for name in distributions("pulumi"):
        copy_distribution(name, target)
    (resource,) = cost.evaluate_program(root, "dev")
    assert resource.name == "mine"
    assert "gpufleet-evaluate" in resource.inputs["root"]


def test_command_prices_another_project(gpufleet, write_program, tmp_path):
    root = write_program(VOLUME)
    result = gpufleet("cost", "estimate", "--project", root, "-s", "dev", cwd=tmp_path.parent)
    assert result.returncode == 0, result.stderr
    assert "ebs:gp3" in result.stdout
    result = gpufleet("cost", "estimate", "--project", tmp_path / "none", "-s", "dev", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
