"""Test that modules support vault, no_log, async, delegate_to, check mode and any interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SECRET = "vaulted-4711-secret"
VAULT = Path(sys.executable).with_name("ansible-vault")


def write_file_task(path, content, **more):
    task = {"gpufleet.fleet.resources": {"files": [{"path": str(path), "content": content}]}}
    return {"name": path.name, **task, **more}


@pytest.fixture
def vault(tmp_path, clean_env):
    """Give a file of variables that only Ansible's vault can read, and the environment that opens it."""
    (tmp_path / "password").write_text("opens\n")
    variables = tmp_path / "secrets.yml"
    variables.write_text(json.dumps({"secret": SECRET}))
    env = {"ANSIBLE_VAULT_PASSWORD_FILE": str(tmp_path / "password")}
    subprocess.run([VAULT, "encrypt", variables], env=clean_env | env, check=True, capture_output=True)
    return variables, env


def test_modules_support_vault_no_log_async_delegation_and_check_mode(run_play, tmp_path, vault):
    variables, env = vault
    out = tmp_path / "out"
    out.mkdir()
    delegated = {"delegate_to": "blade02", "vars": {"ansible_connection": "local"}}
    result = run_play(
        {"ansible.builtin.include_vars": {"file": str(variables)}, "no_log": True},
        write_file_task(out / "vaulted", "{{ secret }}\n"),
        write_file_task(out / "silent", "{{ secret }}\n", no_log=True),
        write_file_task(out / "later", "{{ secret }}\n", **{"async": 300, "poll": 1}),
        write_file_task(out / "delegated", "{{ secret }}\n", **delegated),
        write_file_task(out / "checked", "{{ secret }}\n", check_mode=True),
        {"gpufleet.fleet.resources": {"files": [{"path": str(out / "batch"), "content": "{{ secret }}\n"}]}},
        {"gpufleet.fleet.probe": {"node": "{{ inventory_hostname }}"}, "async": 300, "poll": 1},
        ANSIBLE_VERBOSITY="3",
        **env,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "blade01 -> blade02" in result.stdout
    written = {path.name: path.read_text() for path in out.iterdir()}
    assert written == dict.fromkeys(("vaulted", "silent", "later", "delegated", "batch"), f"{SECRET}\n")
    assert result.stdout.count("output has been hidden") == 2
    # The difference is shown where it was asked for, as by Ansible's own modules.
    output, _, checked = result.stdout.partition("TASK [checked]")
    assert SECRET not in output + checked.partition("TASK [")[2]


def test_interpreter_of_the_inventory_is_used(run_play, tmp_path):
    named = tmp_path / "python-of-choice"
    named.symlink_to(sys.executable)
    env = {"ANSIBLE_VERBOSITY": "3"}
    result = run_play(
        write_file_task(tmp_path / "a", "x") | {"vars": {"ansible_python_interpreter": str(named)}}, **env
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert str(named) in result.stdout


def test_invalid_argument_is_named(run_play):
    result = run_play(
        {"gpufleet.fleet.resources": {"files": [{"path": "/a", "content": "x", "contnt": "x"}]}}
    )
    assert "Supported parameters" in result.stdout + result.stderr


@pytest.mark.parametrize("pipelining", ["1", "0"])
def test_result_is_the_same_with_and_without_pipelining(run_play, tmp_path, pipelining):
    result = run_play(
        write_file_task(tmp_path / "b", "x\n"),
        write_file_task(tmp_path / "b", "x\n"),
        ANSIBLE_PIPELINING=pipelining,
    )
    assert "changed=1" in result.stdout, result.stdout + result.stderr
    assert (tmp_path / "b").read_text() == "x\n"


def test_no_action_plugin_runs_commands_on_the_host(repo_root):
    plugins = repo_root / "modules/ansible_collections/gpufleet/fleet/plugins"
    transport = "_low_level_execute_command"
    assert [path.name for path in plugins.rglob("*.py") if transport in path.read_text()] == []
