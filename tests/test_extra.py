"""Test a plain install: what works without any extra, and the line where one is missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gpufleet import extra
from gpufleet.cost.inputs.program.registration import ProgramError, make_input_error
from gpufleet.errors import EnvironmentFault

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = PROJECT["optional-dependencies"]
WITHOUT_EXTRAS = [
    ["size", "--model", "llama-3.1-8b"],
    ["compare", "L40S", "L4"],
    ["prices", "--gpu", "h100"],
    ["machine", "p4d.24xlarge"],
    ["doctor"],
    ["init", "new", "--cloud", "aws", "--rack", "blades:2", "--yes"],
]
MISSING = [
    (["nodes", "list"], "sqlalchemy", "registry"),
    (["burnin", "report"], "sqlalchemy", "registry"),
    (["configure", "--limit", "all"], "sqlalchemy", "registry"),
    (["compare", "L40S", "L4", "--svg", "plot.svg"], "altair", "plots"),
    (["compare", "L40S", "L4", "--html", "page.html"], "altair", "plots"),
]


def normalize(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_names(requirements):
    return {normalize(re.match(r"[\w.-]+", text)[0]) for text in requirements}


@pytest.fixture
def run_without_extras(clean_env, tmp_path):
    """Run command lines in one process, without extras; return code, output and errors of each, and the modules."""

    def run(lines):
        completed = subprocess.run(
            [sys.executable, ROOT / "tests/import_blocker.py", json.dumps(lines)],
            cwd=tmp_path, env=clean_env | {"GPUFLEET_HOME": str(tmp_path)},
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        return json.loads(completed.stdout)

    return run


def test_table_names_the_extras_of_the_package():
    assert set(extra.EXTRAS) == set(OPTIONAL) - {"all", "dev", "fuzz"}
    assert OPTIONAL["all"] == [f"gpufleet[{','.join(extra.EXTRAS)}]"]


def test_lock_has_an_allowed_version_of_every_requirement():
    lock = (ROOT / ".ci/constraints.txt").read_text()
    pinned = {
        normalize(name): version for name, version in re.findall(r"^([\w.-]+)\S*==(\S+)", lock, re.MULTILINE)
    }
    listed = [text for name, texts in OPTIONAL.items() if name != "fuzz" for text in texts]
    requirements = [Requirement(text) for text in [*PROJECT["dependencies"], *listed]]
    wrong = [
        str(each)
        for each in requirements
        if each.name != "gpufleet" and pinned.get(normalize(each.name), "") not in each.specifier
    ]
    assert wrong == []


@pytest.mark.parametrize("name", extra.EXTRAS)
def test_extra_installs_its_modules_and_no_other(name):
    own = requirement_names(text for text in OPTIONAL[name] if not text.startswith("gpufleet["))
    providers = metadata.packages_distributions()
    found = {
        module: {normalize(each) for each in providers[module.partition(".")[0]]} & own
        for module in extra.EXTRAS[name]
    }
    assert all(found.values()), found
    assert set.union(*found.values()) == own
    assert not own & requirement_names(PROJECT["dependencies"])


def test_help_of_every_command_needs_no_extra(run_without_extras):
    results, modules = run_without_extras([])
    assert len(results) > 60
    assert [(code, err) for code, _, err in results if code or err] == []
    assert {"pulumi", "boto3", "paramiko", "ansible", "jinja2", "pydantic"} & set(modules) == set()


def test_sizing_prices_and_init_need_no_extra(run_without_extras):
    results, _ = run_without_extras(WITHOUT_EXTRAS)
    assert [(words, err) for words, (code, _, err) in zip(WITHOUT_EXTRAS, results, strict=True) if code] == []


def test_missing_extra_is_one_line_with_the_command(run_without_extras):
    results, _ = run_without_extras([words for words, *_ in MISSING])
    assert [(code, err) for code, _, err in results] == [
        (3, f"error: {module} is not installed: pip install 'gpufleet[{name}]'\n")
        for _, module, name in MISSING
    ]


@pytest.mark.parametrize(
    ("module", "remedy"),
    [
        ("pulumi_aws", "pip install 'gpufleet[aws]'"),
        ("pulumi_azure_native", "pip install 'gpufleet[azure]'"),
        ("pulumi_awsx", "the program's own"),
        ("own_module", "the program's own"),
    ],
)
def test_program_without_its_sdk_is_told_the_extra(module, remedy):
    problem = f"the Pulumi program failed: ModuleNotFoundError: No module named '{module}'"
    error = make_input_error(ProgramError(problem=problem, remedy="the program's own"), "/root", "")
    assert error.remedy == remedy


def test_pool_without_its_sdk_is_one_line(monkeypatch):
    from gpufleet.cloud.fleet_declaration import load_pool_builder

    for name in [name for name in sys.modules if name.startswith(("gpufleet.cloud.gcp_", "pulumi_gcp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pulumi_gcp", None)
    with pytest.raises(ValueError, match=r"^pulumi_gcp is not installed: pip install 'gpufleet\[gcp\]'$"):
        load_pool_builder("gcp")


def test_other_missing_module_is_not_explained():
    with pytest.raises(ModuleNotFoundError), extra.explain_missing_packages():
        raise ModuleNotFoundError("gone", name="own_module")
    with pytest.raises(EnvironmentFault, match="receptorctl"), extra.explain_missing_packages():
        raise ModuleNotFoundError("gone", name="receptorctl.socket_interface")
