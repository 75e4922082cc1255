# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The kernel's audit subsystem, and its rules in /etc/audit/rules.d."""

from __future__ import annotations

import errno
import os
import re
import socket
import struct
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    COMMAND_NOT_FOUND,
    HostError,
    first_nonempty_line,
    run_program,
)

RULES_FILE = Path("/etc/audit/audit.rules")
AUDITD_SETTINGS = "/etc/audit/auditd.conf"
# linux/netlink.h and linux/audit.h
NETLINK_AUDIT, NLM_F_REQUEST, NLMSG_ERROR, AUDIT_GET = 9, 1, 2, 1000
HEADER_FORMAT = "=IHHII"  # length, type, flags, sequence, port
HEADER_BYTES = struct.calcsize(HEADER_FORMAT)
LOCKED = 2  # auditctl -e 2
REASONS = {
    errno.EPROTONOSUPPORT: "this kernel has no audit subsystem",
    errno.EAFNOSUPPORT: "this kernel has no audit subsystem",
    errno.EPERM: "the kernel refuses audit here, as in a container",
    errno.ECONNREFUSED: "the kernel refuses audit here, as in a container",
}


class AuditState(NamedTuple):
    """Why the host cannot audit (empty: it can), and whether its rules are locked until the next start."""

    refusal: str
    is_locked: bool = False


def read_audit_state() -> AuditState:
    """Ask the kernel, as ``auditctl -s`` does; works before auditd is installed."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_AUDIT) as kernel:
            kernel.settimeout(5)
            kernel.sendto(struct.pack(HEADER_FORMAT, HEADER_BYTES, AUDIT_GET, NLM_F_REQUEST, 1, 0), (0, 0))
            return parse_audit_answer(kernel.recv(8192))
    except OSError as error:
        return AuditState(_explain_errno(error.errno or errno.EIO))


def parse_audit_answer(message: bytes) -> AuditState:
    """Return what one netlink message says: a negative errno, or struct audit_status (mask, enabled, …)."""
    __, kind, *__ = struct.unpack_from(HEADER_FORMAT, message)
    if kind == NLMSG_ERROR:
        (code,) = struct.unpack_from("=i", message, HEADER_BYTES)
        return AuditState(_explain_errno(-code))
    __, enabled = struct.unpack_from("=II", message, HEADER_BYTES)
    return AuditState("", enabled == LOCKED)


def _explain_errno(code: int) -> str:
    return REASONS.get(code) or f"the kernel does not audit: {os.strerror(code).lower()}"


def load_audit_rules(is_locked: bool, check_mode: bool) -> dict[str, Any]:
    """Load /etc/audit/rules.d if it differs from what was loaded; return Ansible's result."""
    status, out, err = run_program(["augenrules", "--check"])
    if status == COMMAND_NOT_FOUND:
        return {"changed": check_mode}
    if status != 0:
        raise HostError(f"augenrules failed: {first_nonempty_line(err, out)}")
    is_current = "should be updated" not in out and "No rules" not in run_program(["auditctl", "-l"])[1]
    if is_current or check_mode:
        return {"changed": not is_current}
    if is_locked:
        run_program(["augenrules"])
        reason = "the rules are locked (auditctl -e 2); the new ones count from the next start"
        return {"changed": True, "not_applied": {"audit_rules": reason}}
    status, out, err = run_program(["augenrules", "--load"])
    if status != 0:
        reason = explain_load_failure(err + out)
        RULES_FILE.unlink(missing_ok=True)  # the next run must not take these rules for loaded
        raise HostError(f"the audit rules were not loaded: {reason}")
    return {"changed": True}


def reload_auditd(changed_paths: list[str], check_mode: bool) -> None:
    """Let auditd read changed settings; on some systems its unit refuses a restart and has no reload."""
    if AUDITD_SETTINGS in changed_paths and not check_mode:
        run_program(["systemctl", "kill", "--kill-who=main", "--signal=HUP", "auditd.service"])


def explain_load_failure(output: str) -> str:
    """Return auditctl's reason, with the rule that it names by its line."""
    match = re.search(r"error in line (\d+) of (\S+)", output)
    if not match:
        return first_nonempty_line(output)
    try:
        rule = Path(match[2]).read_text(encoding="utf-8", errors="replace").splitlines()[int(match[1]) - 1]
    except (OSError, IndexError):
        return first_nonempty_line(output)
    return f"{first_nonempty_line(output)}: {rule}"
