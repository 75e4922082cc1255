"""Test kernel settings in the module `resources`: one file, the running kernel, and refused settings."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.fleet.plugins.module_utils import sysctl as work
from ansible_collections.gpufleet.fleet.plugins.modules import resources


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Lay out a kernel's settings: one that can be set, one with several fields."""
    root = tmp_path / "proc"
    (root / "net/ipv4").mkdir(parents=True)
    (root / "net/ipv4/tcp_syncookies").write_text("0\n")
    (root / "net/ipv4/ping_group_range").write_text("1\t0\n")
    monkeypatch.setattr(work, "PROC_SYS", root)
    return root


@pytest.fixture
def run(capsys, tmp_path):
    def call(settings, check=False):
        path = str(tmp_path / "60.conf")
        arguments = {"sysctl_path": path, "sysctl": settings, "_ansible_check_mode": check}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            resources.main()
        return json.loads(capsys.readouterr().out)

    return call


def test_settings_are_written_and_applied_once(kernel, run, tmp_path):
    result = run({"net.ipv4.tcp_syncookies": 1})
    assert (result["changed"], result["not_applied"]) == (True, {})
    assert (kernel / "net/ipv4/tcp_syncookies").read_text() == "1\n"
    assert "net.ipv4.tcp_syncookies = 1\n" in (tmp_path / "60.conf").read_text()
    assert run({"net.ipv4.tcp_syncookies": 1})["changed"] is False


def test_settings_unknown_to_the_kernel_are_reported_and_do_not_repeat_changes(kernel, run):
    assert run({"kernel.no_such": 1})["not_applied"] == {
        "sysctl": {"kernel.no_such": "this kernel does not have it"}
    }
    second_result = run({"kernel.no_such": 1})
    assert (second_result["changed"], list(second_result["not_applied"]["sysctl"])) == (
        False,
        ["kernel.no_such"],
    )


def test_refused_setting_is_reported_with_the_kernels_message(kernel):
    (kernel / "kernel/locked").mkdir(parents=True)
    assert work.set_kernel_setting("kernel.locked", 1, check_mode=False) == "is a directory"


def test_whitespace_between_fields_is_ignored(kernel, run):
    run({"net.ipv4.ping_group_range": "1 0"})
    assert (kernel / "net/ipv4/ping_group_range").read_text() == "1\t0\n"


def test_check_mode_changes_neither_file_nor_kernel(kernel, run, tmp_path):
    result = run({"net.ipv4.tcp_syncookies": 1}, check=True)
    assert result["changed"]
    assert (kernel / "net/ipv4/tcp_syncookies").read_text() == "0\n"
    assert not (tmp_path / "60.conf").exists()


def test_file_does_not_depend_on_the_order_of_settings():
    assert work.render_sysctl_file({"b": 2, "a": 1}) == work.render_sysctl_file({"a": 1, "b": 2})
