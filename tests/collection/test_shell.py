"""Test the shell plugin: refused temporary folders, and module unpacking on a full disk."""

from __future__ import annotations

import os
import subprocess

import pytest

from ansible_collections.gpufleet.fleet.plugins.shell import private

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


def make_temporary_folder(base, home=None):
    """Run the command for a temporary folder as Ansible does; return status and standard output."""
    command = private.ShellModule().mkdtemp(basefile="ansible-tmp-1", tmpdir=str(base))
    env = os.environ | ({"HOME": str(home)} if home else {})
    result = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False, env=env)
    return result.returncode, result.stdout.strip()


@pytest.fixture
def base(tmp_path):
    """Give a private temporary folder below a home folder."""
    folder = tmp_path / "home/.ansible/tmp"
    folder.mkdir(parents=True, mode=0o700)
    return folder


def assert_refused(base, *fragments):
    status, output = make_temporary_folder(base)
    assert status == 1
    assert output.startswith("gpufleet: the temporary folder is refused: ")
    assert all(fragment in output for fragment in fragments), output
    assert not (base / "ansible-tmp-1").exists()


def test_private_folder_is_created_and_named(tmp_path):
    base = tmp_path / "with space/.ansible/tmp"
    assert make_temporary_folder(base) == (0, f"ansible-tmp-1={base}/ansible-tmp-1")
    assert base.stat().st_mode & 0o777 == (base / "ansible-tmp-1").stat().st_mode & 0o777 == 0o700


def test_folder_below_the_home_folder_is_created(tmp_path):
    folder = tmp_path / ".ansible/tmp/ansible-tmp-1"
    assert make_temporary_folder("~/.ansible/tmp", home=tmp_path) == (0, f"ansible-tmp-1={folder}")
    assert folder.is_dir()


def test_existing_folder_is_not_used(base):
    (base / "ansible-tmp-1").mkdir()
    assert make_temporary_folder(base) == (1, "")


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
def test_folder_writable_by_others_is_refused(base, mode):
    base.chmod(mode)
    assert_refused(base, str(base), "nobody else may write to it")


def test_parent_folder_writable_by_others_is_refused(base):
    base.parent.parent.chmod(0o777)
    assert_refused(base, f"{base.parent.parent}, which holds it")


def test_parent_folder_with_sticky_bit_is_accepted(base):
    base.parent.parent.chmod(0o1777)
    assert make_temporary_folder(base)[0] == 0


def test_symlink_is_refused(base, tmp_path):
    (tmp_path / "link").symlink_to(base)
    status, output = make_temporary_folder(tmp_path / "link")
    assert (status, output.endswith("link is a symbolic link")) == (1, True)
    assert list(base.iterdir()) == []


def test_dangling_symlink_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    assert_refused(tmp_path / "link", "cannot make")


@needs_root
def test_folder_of_another_user_is_refused(base):
    os.chown(base, 65534, 65534)
    assert_refused(base, "must belong to this login")


@needs_root
def test_parent_folder_of_another_user_is_refused(base):
    os.chown(base.parent, 65534, 65534)
    assert_refused(base, f"{base.parent}, which holds it", "must belong to this login or root")


def test_folder_names_are_not_executed(tmp_path):
    base = tmp_path / "$(touch owned)`touch owned`'\";touch owned"
    assert make_temporary_folder(base)[0] == 0
    assert [path for path in (tmp_path, base) if (path / "owned").exists()] == []


def test_folder_for_become_uses_ansibles_own_command(monkeypatch):
    shell = private.ShellModule()
    monkeypatch.setattr(shell, "get_option", {"system_tmpdirs": ["/var/tmp", "/tmp"]}.get)
    command = shell.mkdtemp("ansible-tmp-1", system=True, mode=0o700, tmpdir="/tmp")
    assert "/tmp/ansible-tmp-1" in command
    assert "refuse" not in command


@pytest.mark.parametrize(("free", "place"), [(8191, "/run"), (0, "/run"), (8192, ""), (999999, "")])
def test_module_is_unpacked_in_memory_only_if_the_disk_is_full(tmp_path, free, place):
    if not os.access("/run", os.W_OK):
        place = ""
    (tmp_path / "df").write_text(f"#!/bin/sh\necho Head\necho '/dev/x 10 10 {free} 1% /'\n")
    (tmp_path / "df").chmod(0o755)
    command = private.ShellModule().build_module_command("LANG=C", "#!/bin/sh", "")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    result = subprocess.run(
        ["/bin/sh", "-c", command], input='echo "$LANG $TMPDIR"', capture_output=True, text=True, check=True,
        env=env,
    )  # fmt: skip
    assert result.stdout.strip() == f"C {place}".strip()
