"""The rehearsal's `pulumi`: what it prepares before it becomes the engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from gpufleet.rehearsal import launcher

SALT = "v1:ours"
SPEC = "config:\n  gpufleet:fleet:\n    owner: x   # stays\n"


@pytest.fixture
def facts(tmp_path, monkeypatch):
    """Give a project with one tracked stack file, as `env.json` describes it."""
    root = tmp_path / "project"
    (root / "stacks").mkdir(parents=True)
    (root / "stacks" / "Pulumi.dev.yaml").write_text(SPEC)
    (root / "backend").mkdir()
    monkeypatch.chdir(root)
    return {
        "stack": "dev",
        "root": str(root),
        "backend": str(root / "backend"),
        "settings": str(root / "stacks" / "Pulumi.dev.yaml"),
        "settings_copy": str(root / "copy.yaml"),
        "salt": SALT,
        "pulumi": "/bin/echo",
    }


def read_copy(facts):
    with open(facts["settings_copy"]) as file:  # noqa: PTH123 - a path in text, as env.json has it
        return file.read()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_engine_reads_a_copy_with_the_rehearsals_salt(facts):
    ready = launcher.prepare_pulumi_command(facts, ["up", "-s", "dev"], {"A": "b"})
    assert ready["PULUMI_OPTION_CONFIG_FILE"] == facts["settings_copy"]
    assert ready["A"] == "b"
    assert read_copy(facts) == f"{SPEC}encryptionsalt: {SALT}\n"


@pytest.mark.parametrize(
    "user_settings", ["encryptionsalt: v1:theirs\n", "secretsprovider: awskms://key\nencryptedkey: x\n"]
)
def test_users_secrets_settings_are_removed(facts, tmp_path, user_settings):
    tracked = write(tmp_path / "own.yaml", user_settings + SPEC)
    assert launcher.read_settings_with_salt(tracked, SALT) == f"{SPEC}encryptionsalt: {SALT}\n"


def test_settings_file_without_final_newline_is_read(tmp_path):
    tracked = write(tmp_path / "own.yaml", "config: {}")
    assert launcher.read_settings_with_salt(tracked, SALT) == f"config: {{}}\nencryptionsalt: {SALT}\n"


@pytest.mark.parametrize("value", ["  aws:token:\n    secure: v1:x\n", "  aws:token: {secure: v1:x}\n"])
def test_encrypted_values_are_refused(tmp_path, value):
    tracked = write(tmp_path / "own.yaml", f"config:\n{value}")
    with pytest.raises(launcher.UnsafeCommandError, match="encrypted value"):
        launcher.read_settings_with_salt(tracked, SALT)


def test_word_secure_in_a_comment_is_not_an_encrypted_value(tmp_path):
    tracked = write(tmp_path / "own.yaml", "config: {}  # secure: no\n")
    assert "config" in launcher.read_settings_with_salt(tracked, SALT)


@pytest.mark.parametrize(
    "arguments", [["config", "set", "a", "b"], ["config"], ["-s", "dev", "--color", "never", "config"]]
)
def test_commands_about_the_settings_get_the_tracked_file(facts, arguments):
    assert "PULUMI_OPTION_CONFIG_FILE" not in launcher.prepare_pulumi_command(facts, arguments, {})


def test_stack_may_be_named_config(facts):
    assert "PULUMI_OPTION_CONFIG_FILE" in launcher.prepare_pulumi_command(facts, ["up", "-s", "config"], {})


def test_launcher_makes_no_settings_copy_for_another_project(facts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "PULUMI_OPTION_CONFIG_FILE" not in launcher.prepare_pulumi_command(facts, ["up"], {})


@pytest.mark.parametrize("flag", ["--remove", "--remove=true"])
def test_command_that_would_delete_the_tracked_settings_is_refused(facts, flag):
    with pytest.raises(launcher.UnsafeCommandError, match="gpufleet rehearse down -s dev"):
        launcher.prepare_pulumi_command(facts, ["destroy", "-s", "dev", flag], {})


def test_launcher_passes_the_users_arguments_to_the_engine(facts, tmp_path):
    (tmp_path / "env.json").write_text(json.dumps(facts))
    command = [
        sys.executable,
        "-I",
        "-S",
        launcher.__file__,
        str(tmp_path / "env.json"),
        "up",
        "a b",
        "--x=$y",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "up a b --x=$y\n"


def test_refused_command_prints_one_line_and_exits_with_2(facts, tmp_path):
    (tmp_path / "env.json").write_text(json.dumps(facts))
    command = [
        sys.executable,
        "-I",
        "-S",
        launcher.__file__,
        str(tmp_path / "env.json"),
        "destroy",
        "--remove",
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("error: --remove would delete")
    assert result.stderr.count("\n") == 1


def lock(backend, name, pid):
    text = json.dumps({"pid": pid}) if pid else '{"pid": '
    return write(backend / ".pulumi" / "locks" / "organization" / "gpufleet" / "dev" / f"{name}.json", text)


def test_locks_of_engines_that_ended_are_removed(tmp_path):
    process = subprocess.Popen(["true"])
    process.wait()
    stale = [
        lock(tmp_path, "ended", process.pid),
        lock(tmp_path, "half", 0),
        lock(tmp_path, "reused", os.getpid()),
    ]
    assert sorted(launcher.remove_stale_pulumi_locks(tmp_path)) == sorted(stale)
    assert launcher.remove_stale_pulumi_locks(tmp_path) == []


def test_lock_of_a_running_engine_stays(tmp_path):
    engine = tmp_path / "pulumi"
    engine.symlink_to("/bin/sleep")
    running = subprocess.Popen([str(engine), "30"])
    try:
        while not launcher.is_pulumi_process(running.pid):  # it takes its name a moment after it has started
            time.sleep(0.01)
        lock_file = lock(tmp_path, "held", running.pid)
        assert launcher.remove_stale_pulumi_locks(tmp_path) == []
        assert lock_file.exists()
    finally:
        running.kill()
        running.wait()


def test_backend_without_locks_is_accepted(tmp_path):
    assert launcher.remove_stale_pulumi_locks(tmp_path) == []
