"""Checks of the playbooks without a host: syntax, structure, documentation and project rules."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from gpufleet.nodes import STATES
from tools import role_readme

ENTRIES = Path(__file__).resolve().parents[2] / "playbooks"
FLEET = ENTRIES.parent / "modules/ansible_collections/gpufleet/fleet"
ROOT = FLEET / "playbooks"
ROLES = sorted(path for path in (FLEET / "roles").iterdir() if path.is_dir())
TASK_FILES = sorted(path for role in ROLES for path in (role / "tasks").glob("*.yml"))


def load(path):
    return YAML(typ="safe").load(path)


def load_options(role):
    (entry,) = load(role / "meta/argument_specs.yml")["argument_specs"].values()
    return entry["options"]


def role_id(path):
    return path.name if path in ROLES else f"{path.parents[1].name}/{path.name}"


@pytest.mark.parametrize(
    "name",
    [
        "site",
        "driver_rollback",
        "reboot",
        "upgrade_os",
        "upgrade_os_rollback",
        "blades",
        "plan",
        "retire",
        "image",
    ],
)
def test_playbook_syntax_is_valid(name, clean_env):
    command = ["ansible-playbook", "--syntax-check", "-i", "localhost,", f"{name}.yml"]
    result = subprocess.run(command, cwd=ENTRIES, env=clean_env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_every_playbook_of_the_collection_has_an_entry_that_only_imports_it():
    entries = {path.stem: load(path) for path in ENTRIES.glob("*.yml") if path.stem != "requirements"}
    assert entries.keys() == {path.stem for path in ROOT.glob("*.yml")}
    for name, (entry,) in entries.items():
        assert {**entry, "name": ""} == {
            "name": "",
            "ansible.builtin.import_playbook": f"gpufleet.fleet.{name}",
        }
    assert (ENTRIES / "ansible.cfg").readlink() == Path("..") / (ROOT / "ansible.cfg").relative_to(
        ENTRIES.parent
    )


@pytest.mark.parametrize("role", ROLES, ids=role_id)
def test_readme_is_current(role):
    assert (role / "README.md").read_text() == role_readme.readme(role), "run python -m tools.role_readme"


@pytest.mark.parametrize("role", ROLES, ids=role_id)
def test_every_default_is_documented_and_named_after_its_role(role):
    defaults = load(role / "defaults/main.yml")
    options = load_options(role)
    assert set(defaults) == set(options)
    internal = load(role / "vars/main.yml")
    assert all(name.startswith(f"{role.name}_") for name in {**defaults, **internal})


@pytest.mark.parametrize("role", ROLES, ids=role_id)
def test_documented_defaults_match_the_role(role):
    options = load_options(role)
    for name, value in load(role / "defaults/main.yml").items():
        if isinstance(value, dict) or "{{" in str(value):
            continue
        assert options[name]["default"] == value


@pytest.mark.parametrize("path", TASK_FILES, ids=role_id)
def test_task_files_are_short(path):
    assert len(load(path)) <= 6
    assert len(path.read_text().splitlines()) <= 40


@pytest.mark.parametrize("role", ROLES, ids=role_id)
def test_main_task_file_only_imports_tagged_task_files(role):
    for task in load(role / "tasks/main.yml"):
        assert "ansible.builtin.import_tasks" in task
        assert task["tags"]


def test_every_part_that_a_play_reports_is_one_of_the_module():
    texts = [path.read_text() for path in ROOT.rglob("*.yml")]
    reported = {
        part for text in texts for part in re.findall(r"^ +(?:gpufleet_)?part: (\w+)$", text, re.MULTILINE)
    }
    module = (FLEET / "plugins/modules/report.py").read_text()
    options = YAML(typ="safe").load(module.split('DOCUMENTATION = """')[1].split('"""')[0])["options"]
    assert reported == set(options["part"]["choices"])


def test_no_role_disables_the_vfat_module():
    options = load(FLEET / "roles/hardening/meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    assert "vfat" not in options["hardening_disabled_filesystems"]["choices"]
    for path in [*ROOT.rglob("*"), *(FLEET / "roles").rglob("*")]:
        if path.is_file() and path.suffix in {".yml", ".j2", ".sh", ".conf"}:
            assert not re.search(r"(blacklist|install)\s+v?fat", path.read_text()), path


def test_ansible_cfg_has_the_required_settings():
    config = configparser.ConfigParser()
    config.read(ROOT / "ansible.cfg")
    callbacks = config["defaults"]["callbacks_enabled"].split(", ")
    assert callbacks == [f"gpufleet.fleet.{name}" for name in ("registry", "play_record", "filter_preload")]
    assert config["defaults"].getboolean("host_key_checking")
    assert config["defaults"]["remote_tmp"] == "~/.ansible/tmp"
    assert config["inventory"].getboolean("any_unparsed_is_failed")
    assert config["ssh_connection"].getboolean("pipelining")
    assert "StrictHostKeyChecking=yes" in config["ssh_connection"]["ssh_args"]
    assert "ServerAliveInterval=15" in config["ssh_connection"]["ssh_args"], "tests of faults shorten it"


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shell_scripts_are_valid():
    scripts = sorted([*ROOT.rglob("*.sh"), *FLEET.rglob("*.sh")])
    assert scripts
    subprocess.run(["shellcheck", *scripts], check=True)


def test_agent_can_be_built_like_the_role_does(tmp_path, monkeypatch):
    code = load(FLEET / "roles/burn_in/vars/main.yml")["burn_in_build"]
    monkeypatch.setenv("GPUFLEET_HOME", str(tmp_path))
    built = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    version = subprocess.run([sys.executable, built, "--version"], capture_output=True, text=True, check=True)
    assert Path(built).parent == tmp_path
    assert version.stdout.strip()


def evaluate_group_vars(clean_env, state, burn_in):
    """Return what group_vars compute from a node's state and a request, with Ansible's templating."""
    is_new, is_busy = STATES[state].is_new, STATES[state].is_busy
    options = ["-e", f"gpufleet_is_new={is_new} gpufleet_is_busy={is_busy} gpufleet_burn_in={burn_in}"]
    arguments = ["-i", "localhost,", "-c", "local", "-m", "debug", "-a", "var=gpufleet_burn_in_now"]
    command = ["ansible", "localhost", "--playbook-dir", ".", *arguments, *options]
    result = subprocess.run(command, cwd=ROOT, env=clean_env, capture_output=True, text=True, check=False)
    return re.findall(r'"gpufleet_burn_in_now": (\w+)', result.stdout)


@pytest.mark.parametrize(
    ("state", "burn_in", "measured"),
    [
        ("ready", "always", "true"),
        ("ready", "auto", "false"),
        ("burn_in", "auto", "true"),
        ("burn_in", "never", "false"),
        ("assigned", "always", "false"),
        ("draining", "always", "false"),
    ],
)
def test_hosts_for_burn_in_are_selected_by_state_and_option(clean_env, state, burn_in, measured):
    assert evaluate_group_vars(clean_env, state, burn_in) == [measured]


def texts(value):
    """Yield every text in a document."""
    if isinstance(value, dict):
        yield from (text for item in value.values() for text in texts(item))
    elif isinstance(value, list):
        yield from (text for item in value for text in texts(item))
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize(
    "path",
    sorted([*ROOT.rglob("*.yml"), *(FLEET / "roles").rglob("*.yml")]),
    ids=lambda path: str(path.relative_to(ROOT.parent)),
)
def test_no_expression_contains_a_backslash_escape(path):
    """Ansible does not replace backslash and n inside an expression: they would be in the file."""
    for text in texts(load(path)):
        for expression in re.findall(r"\{\{.*?\}\}", text, re.DOTALL):
            assert "\\n" not in expression
