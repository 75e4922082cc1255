"""Test the kernel's answers about audit, the loading of rules, and each default rule with the real libaudit."""

from __future__ import annotations

import ctypes
import errno
import shlex
import struct

import pytest

from ansible_collections.gpufleet.fleet.plugins.filter.hardening import audit_resources
from ansible_collections.gpufleet.fleet.plugins.module_utils import audit_kernel
from ansible_collections.gpufleet.fleet.plugins.module_utils.audit_kernel import AuditState
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError
from gpufleet.boundary import decode_yaml

MACHINES = {"b64": ("x86_64", "aarch64"), "b32": ("i686", "armv7l")}
FILTER_EXIT = 4  # linux/audit.h: AUDIT_FILTER_EXIT
SETTINGS = {
    "state": "present",
    "rules": [],
    "backlog": 8192,
    "rate_per_second": 0,
    "log_file_mib": 50,
    "log_files": 5,
    "disk_full": "suspend",
}
SYSTEM = {"hardening_audit_packages": ["auditd"], "hardening_audit_runs_when_absent": False}
# The package's own scripts, as far as the module reads them: Debian's auditd 3.0.9, /sbin/augenrules; src/auditctl.c.
AUGENRULES = """#!/bin/sh
echo "$*" >>{folder}/calls
case "$1" in
  --check) cmp -s {folder}/wanted {folder}/audit.rules && echo "/usr/sbin/augenrules: No change" ||
    echo "/usr/sbin/augenrules: Rules have changed and should be updated" ;;
  *) cp {folder}/wanted {folder}/audit.rules
    [ "$1" != --load ] || ! grep -q nonsense {folder}/audit.rules ||
      {{ echo "There was an error in line 2 of {folder}/audit.rules" >&2; exit 1; }} ;;
esac
"""
AUDITCTL = "#!/bin/sh\n[ -s {folder}/audit.rules ] && cat {folder}/audit.rules || echo 'No rules'\n"


@pytest.fixture
def default_rules(repo_root):
    defaults = repo_root / "modules/ansible_collections/gpufleet/fleet/roles/hardening/defaults/main.yml"
    return decode_yaml(defaults.read_text(), "defaults")["hardening_audit_rules"]


@pytest.fixture
def fake_tools(tmp_path, monkeypatch):
    """Install FAKE tools of audit, with the outputs of the real ones; return their folder."""
    for name, text in (("augenrules", AUGENRULES), ("auditctl", AUDITCTL)):
        (tmp_path / name).write_text(text.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(audit_kernel, "RULES_FILE", tmp_path / "audit.rules")
    (tmp_path / "wanted").write_text("-D\n-b 8192\n")
    return tmp_path


def netlink_message(kind, body):
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body


@pytest.mark.parametrize(
    ("message", "state"),
    [
        (netlink_message(1000, struct.pack("=10I", 0, 1, 1, 99, 0, 8192, 0, 0, 0, 0)), AuditState("")),
        (netlink_message(1000, struct.pack("=10I", 0, 2, 1, 99, 0, 8192, 0, 0, 0, 0)), AuditState("", True)),
        (
            netlink_message(2, struct.pack("=i", -errno.EPERM) + bytes(16)),
            AuditState("the kernel refuses audit here, as in a container"),
        ),
        (
            netlink_message(2, struct.pack("=i", -errno.EBUSY) + bytes(16)),
            AuditState("the kernel does not audit: device or resource busy"),
        ),
    ],
)
def test_answer_of_the_kernel_is_read(message, state):
    """Laid out as in linux/netlink.h and linux/audit.h (struct audit_status)."""
    assert audit_kernel.parse_audit_answer(message) == state


def test_default_rules_are_accepted_by_libaudit(default_rules):
    """The functions that auditctl calls for each -S and -F, for x86-64, arm64 and their 32-bit programs."""
    try:
        audit = ctypes.CDLL("libaudit.so.1")
    except OSError:
        pytest.skip("libaudit is not installed")
    audit.audit_rule_create_data.restype = ctypes.c_void_p
    for rule in default_rules:
        arguments = shlex.split(rule)
        assert arguments[:2] == ["-a", "always,exit"], rule
        options = list(zip(arguments[2::2], arguments[3::2], strict=True))
        arch = next((value.removeprefix("arch=") for _, value in options if value.startswith("arch=")), "")
        handle = ctypes.c_void_p(audit.audit_rule_create_data())
        for option, value in options:
            if option == "-S":
                for machine in MACHINES[arch]:
                    number = audit.audit_name_to_machine(machine.encode())
                    for name in value.split(","):
                        assert audit.audit_name_to_syscall(name.encode(), number) >= 0, (rule, machine, name)
                ctypes.c_int.in_dll(audit, "_audit_syscalladded").value = 1
            elif not value.startswith("arch="):
                assert option == "-F", rule
                field = value.encode()
                assert audit.audit_rule_fieldpair_data(ctypes.byref(handle), field, FILTER_EXIT) == 0, (
                    rule,
                    value,
                )


def test_rules_are_loaded_once_and_again_if_the_kernel_lost_them(fake_tools):
    assert audit_kernel.load_audit_rules(False, check_mode=True) == {"changed": True}
    assert not (fake_tools / "audit.rules").exists()
    assert audit_kernel.load_audit_rules(False, check_mode=False) == {"changed": True}
    assert audit_kernel.load_audit_rules(False, check_mode=False) == {"changed": False}
    (fake_tools / "auditctl").write_text("#!/bin/sh\necho 'No rules'\n")
    assert audit_kernel.load_audit_rules(False, check_mode=False) == {"changed": True}
    assert (fake_tools / "calls").read_text().split().count("--load") == 2


def test_refused_rule_is_named_and_not_taken_for_loaded(fake_tools):
    (fake_tools / "wanted").write_text("-D\n-a always,exit -S nonsense\n")
    for _ in range(2):
        with pytest.raises(
            HostError, match=r"not loaded: There was an error in line 2 of .*: -a always,exit -S nonsense"
        ):
            audit_kernel.load_audit_rules(False, check_mode=False)


def test_locked_rules_count_from_the_next_start(fake_tools):
    result = audit_kernel.load_audit_rules(True, check_mode=False)
    assert "from the next start" in result["not_applied"]["audit_rules"]
    assert (fake_tools / "calls").read_text().split().count("--load") == 0
    assert audit_kernel.load_audit_rules(True, check_mode=False) == {"changed": False}


def test_limits_and_the_action_of_a_full_disk_are_written():
    files = {file["path"]: file for file in audit_resources(SETTINGS, system=SYSTEM)["files"]}
    rules = files["/etc/audit/rules.d/gpufleet.rules"]["content"].splitlines()
    assert rules[1:4] == ["-b 8192", "-r 0", "-f 1"]
    lines = files["/etc/audit/auditd.conf"]["lines"]
    assert {
        "max_log_file = 50",
        "num_logs = 5",
        "max_log_file_action = ROTATE",
        "disk_full_action = SUSPEND",
    } < {*lines}
    assert not {line for line in lines if "HALT" in line or "SINGLE" in line}


@pytest.mark.parametrize(("is_part_of_the_system", "units"), [(True, 0), (False, 1)])
def test_daemon_of_the_system_is_not_stopped(is_part_of_the_system, units):
    system = SYSTEM | {"hardening_audit_runs_when_absent": is_part_of_the_system}
    absent = audit_resources(SETTINGS | {"state": "absent"}, system=system)
    assert absent["files"] == [{"path": "/etc/audit/rules.d/gpufleet.rules", "state": "absent"}]
    assert (absent["packages"], len(absent["units"])) == ([], units)
