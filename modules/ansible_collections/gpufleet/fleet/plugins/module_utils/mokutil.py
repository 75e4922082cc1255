# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""mokutil's answers about Secure Boot and the key that signs kernel modules (messages of mokutil 0.6.0)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ENROLLED = ("is already enrolled", "is already in db")
REQUESTED = "is already in the enrollment request"
UNKNOWN = "is not enrolled"
SECURE_BOOT = "SecureBoot enabled"


def run_mokutil(module: AnsibleModule, *arguments: str, data: str | None = None) -> str:
    """Run mokutil; return standard output and standard error on one line."""
    __, out, err = module.run_command([module.get_bin_path("mokutil", required=True), *arguments], data=data)
    return " ".join(f"{out} {err}".split())


def read_mok_key_state(module: AnsibleModule, certificate: str) -> str:
    """Return enrolled, pending or absent; for any other output of mokutil that output."""
    output = run_mokutil(module, "--test-key", certificate)
    if any(text in output for text in ENROLLED):
        return "enrolled"
    if REQUESTED in output:
        return "pending"
    return "absent" if UNKNOWN in output else output


def find_certificate(paths: Iterable[str]) -> str | None:
    """Return the first certificate that exists."""
    return next((path for path in paths if Path(path).exists()), None)


def read_signing_key(module: AnsibleModule, certificates: Iterable[str]) -> str:
    """Return the state of the key of modules that this host builds: not_needed, enrolled, pending or missing."""
    if module.get_bin_path("mokutil") is None or SECURE_BOOT not in run_mokutil(module, "--sb-state"):
        return "not_needed"
    certificate = find_certificate(certificates)
    state = read_mok_key_state(module, certificate) if certificate else "absent"
    return state if state in ("enrolled", "pending") else "missing"
