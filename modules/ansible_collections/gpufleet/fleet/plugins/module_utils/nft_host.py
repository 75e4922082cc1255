# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The firewall on its host: in force at once, in place once confirmed, else taken back by the host itself."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.module_utils.nft import CLEAR, TABLE
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    HostError,
    diff_entry,
    first_line,
    replace_file,
    run,
)

PLACE = Path("/etc/gpufleet/firewall.nft")
UNIT = "gpufleet-firewall.service"
WAITING = "gpufleet-firewall-rollback"
# Memory: after a restart of the host nothing is pending, because only confirmed rules are in place.
FOLDER = Path("/run/gpufleet-firewall")
CANDIDATE, BEFORE = FOLDER / "candidate.nft", FOLDER / "before.nft"
LIST = f"nft --stateless list table {TABLE}"


def ssh_connection(root: Path = Path("/proc")) -> str:
    """Return this run's SSH connection as sshd set it for the session: our own environment may have lost it."""
    pid = os.getpid()
    while pid > 1:
        try:
            variables = (root / str(pid) / "environ").read_bytes().split(b"\0")
            stat = (root / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        entries = [entry for entry in variables if entry.startswith(b"SSH_CONNECTION=")]
        if entries:
            return entries[0].partition(b"=")[2].decode("ascii", "replace")
        pid = int(stat.rpartition(")")[2].split()[1])
    return ""


def operator_address() -> tuple[str, int] | None:
    """Return the address that this run comes from and the port of sshd, or None for a run without SSH."""
    parts = ssh_connection().split()
    if not parts:
        return None
    address, _, _, port = parts
    return address, int(port)


def list_rules() -> tuple[str | None, str]:
    """Return the rules in force, None where our table is missing; a reason if they cannot be read."""
    status, out, err = run(LIST.split())
    if status == 0:
        return out, ""
    missing = "No such file or directory" in err
    return None, "" if missing else first_line(err, out)


def kernel_listing(path: Path) -> str | None:
    """Return what the kernel would list after loading a file, asked in a network of its own; None: can't be asked."""
    status, out, _ = run(["unshare", "--net", "sh", "-c", f'nft -f "$0" && {LIST}', str(path)])
    return out if status == 0 else None


def apply(text: str, seconds: int, check_mode: bool) -> dict[str, Any]:
    """Put new rules into force and leave them to be confirmed; change nothing where they are as wanted."""
    if not shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin"):
        if check_mode:
            return {"changed": True, "diff": diff_entry(str(PLACE), "", text)}
        raise HostError("nft is not installed")
    now, trouble = list_rules()
    if trouble:
        return {"not_applied": {"firewall": trouble}}
    try:
        return _apply_if_different(text, now, seconds, check_mode)
    finally:
        if not BEFORE.exists():  # nothing waits to be confirmed
            CANDIDATE.unlink(missing_ok=True)


def _apply_if_different(text: str, now: str | None, seconds: int, check_mode: bool) -> dict[str, Any]:
    """Let nft read the candidate, and put it into force unless the host is as wanted."""
    _write(CANDIDATE, text)
    status, _, err = run(["nft", "--check", "--file", str(CANDIDATE)])
    if status != 0:
        raise HostError(f"refused, left as it was: {first_line(err).replace(str(CANDIDATE), str(PLACE))}")
    before = PLACE.read_text(encoding="utf-8", errors="replace") if PLACE.exists() else ""
    enabled = run(["systemctl", "is-enabled", "--quiet", UNIT])[0] == 0
    if before == text and enabled and now is not None and kernel_listing(CANDIDATE) in (now, None):
        return {}
    result = {"changed": True, "diff": diff_entry(str(PLACE), before, text)}
    return result if check_mode else {**result, **_apply_until_confirmed(text, now, seconds)}


def _apply_until_confirmed(text: str, now: str | None, seconds: int) -> dict[str, Any]:
    """Arm the way back, then let the new rules into force."""
    if not BEFORE.exists():  # else an earlier try was never confirmed, and this is what was there before it
        _write(BEFORE, CLEAR + (now or ""))
    run(["systemctl", "stop", f"{WAITING}.timer"])
    back = f"nft -f {BEFORE} && rm -f {BEFORE} {CANDIDATE}"
    timer = ["systemd-run", "--quiet", "--collect", f"--unit={WAITING}", f"--on-active={seconds}",
             "--timer-property=AccuracySec=100ms", "sh", "-c", back]  # fmt: skip
    status, _, err = run(timer)
    if status != 0:
        raise HostError(f"refused: the rollback timer can't be started: {first_line(err)}")
    status, _, err = run(["nft", "--file", str(CANDIDATE)])
    if status != 0:
        raise HostError(f"the kernel rejected the rules: {first_line(err)}")
    return {"pending": _digest(text), "connection": ssh_connection()}


def confirm(pending: str, seen: str) -> dict[str, Any]:
    """Keep the rules, now that a connection that did not exist before has come in through them."""
    current = ssh_connection()
    if current and current == seen:
        raise HostError(
            "the firewall was not confirmed: this is the connection that applied it; the old rules return"
        )
    text = CANDIDATE.read_text(encoding="utf-8") if CANDIDATE.exists() else ""
    armed = run(["systemctl", "is-active", "--quiet", f"{WAITING}.timer"])[0] == 0
    run(["systemctl", "stop", f"{WAITING}.timer"])
    if not armed or not BEFORE.exists() or _digest(text) != pending:
        raise HostError(
            "rolled back: with the new firewall no new connection got in, so the host restored the old rules"
        )
    _write(PLACE, text)
    status, _, err = run(["systemctl", "enable", "--now", UNIT])
    if status != 0:
        run(["nft", "--file", str(BEFORE)])
        raise HostError(f"rolled back: the firewall would not come back after a restart: {first_line(err)}")
    BEFORE.unlink()
    CANDIDATE.unlink()
    return {"changed": True}


def remove(check_mode: bool) -> dict[str, Any]:
    """Have no table of ours, now and after a restart."""
    now, trouble = list_rules() if shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin") else (None, "")
    if trouble:
        return {"not_applied": {"firewall": trouble}}
    enabled = run(["systemctl", "is-enabled", "--quiet", UNIT])[0] == 0
    if now is None and not enabled and not PLACE.exists():
        return {}
    if not check_mode:
        run(["systemctl", "disable", "--now", UNIT])
        if list_rules()[0] is not None:
            run(["nft", "delete", "table", *TABLE.split()])
        PLACE.unlink(missing_ok=True)
    return {"changed": True}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700 if path.parent == FOLDER else 0o755, parents=True, exist_ok=True)
    replace_file(path, text, (0o600, 0, 0))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
