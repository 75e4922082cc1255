# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Wipe the drives of a confirmed plan, read them back, and return the evidence."""

from __future__ import annotations

DOCUMENTATION = """
module: wipe
short_description: Wipe the drives of a confirmed plan and return evidence
description:
  - Wipes exactly the drives that the plan lists, with its commands. A drive with another serial or size than planned is
    not changed and fails the task.
  - Reads sixteen places of each drive before and after. A place with unchanged data fails the drive, even if its tool
    reported success.
  - A journal in C(/run), which is memory, records each drive as begun and as done. After an interruption the same call
    continues; drives that are done are not wiped again, a drive that was only begun is.
  - If one drive fails, the others are still wiped.
options:
  node: {description: The node's name in the inventory., type: str, required: true}
  plan: {description: What C(gpufleet.fleet.wipe_plan) returned as I(plan)., type: dict, required: true}
  plan_id: {description: The id of the plan that was confirmed., type: str, required: true}
  fake_drives: {description: "In a rehearsal, the folder of the host's file-backed drive.", type: path}
  timeout_seconds: {description: "Time limit for one drive, in seconds.", type: int, default: 86400}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Wipe
  gpufleet.fleet.wipe:
    node: "{{ inventory_hostname }}"
    plan: "{{ wipe_planned.plan }}"
    plan_id: 0f3a9b1c2d4e
"""

RETURN = """
evidence: {description: "For each drive its commands with output and times, and what was read back.", returned: always,
           type: list, elements: dict}
"""

import hashlib  # noqa: E402 - Ansible wants its documentation above the imports
import json  # noqa: E402
import os  # noqa: E402
import time  # noqa: E402
from datetime import datetime, timezone  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, TypedDict  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (  # noqa: E402
    HostError,
    first_nonempty_line,
    run_program,
)

JOURNAL = Path("/run/gpufleet/wipe.json")
SAMPLES = 16
SAMPLE_BYTES = 4096
POLL_SECONDS = 2
SANITIZE_DONE = 1  # nvme-sanitize-log(1): status, lowest three bits
SANITIZE_RUNNING = 2
MAX_OUTPUT_CHARACTERS = 4000


class DriveWipePlan(TypedDict):
    """How one drive is wiped; ``gpufleet.nodes.wipe_plan`` computes it."""

    path: str
    by_id: str | None
    model: str
    serial: str
    size: int
    method: str
    strength: str
    unmount: list[str]
    release: list[list[str]]
    commands: list[list[str]]
    poll: list[str]
    zeroes: bool


def utc_timestamp() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


class DriveWiper:
    """Wipes one drive after another; ``fake_drives`` is a rehearsal's folder."""

    def __init__(self, fake_drives: str | None, timeout: float) -> None:
        self.fake_drives, self.timeout = fake_drives, timeout
        self.env = (
            {"PATH": f"{fake_drives}/bin:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"} if fake_drives else {}
        )
        self.journal = json.loads(JOURNAL.read_text(encoding="utf-8")) if JOURNAL.is_file() else {}

    def wipe_drive(self, drive: DriveWipePlan) -> dict[str, Any]:
        """Wipe one drive and return its evidence."""
        evidence: dict[str, Any] = {
            "path": drive["path"],
            "by_id": drive["by_id"],
            "model": drive["model"],
            "serial": drive["serial"],
            "size": drive["size"],
            "method": drive["method"],
            "strength": drive["strength"],
        }
        commands: list[dict[str, Any]] = []
        entry = self.journal.get(drive["serial"], {})
        if entry.get("state") == "done" and self.is_unchanged_since_wipe(drive, entry):
            return {**evidence, **entry["evidence"], "resumed": "done by an earlier call and unchanged since"}
        if entry:
            evidence["resumed"] = f"begun at {entry['at']}, its end was not recorded: wiped again"
        evidence.update(began=utc_timestamp(), commands=commands, fake=bool(self.fake_drives))
        try:
            self.check_drive_identity(drive)
            self.unmount_and_release_drive(drive, commands)
            before = self.read_block_samples(drive)
            self.write_wipe_journal(drive, "begun")
            if not (entry and self.is_sanitizing(drive)):
                for argv in drive["commands"]:
                    self.run_recorded_command(argv, commands)
            self.wait_for_sanitize(drive, commands)
            evidence["read_back"] = self.compare_block_samples(drive, before)
        except HostError as error:
            return {**evidence, "ended": utc_timestamp(), "wiped": False, "reason": error.msg}
        done = {**evidence, "ended": utc_timestamp(), "wiped": True}
        self.write_wipe_journal(drive, "done", evidence=done, reads=self.read_block_samples(drive))
        return done

    def is_unchanged_since_wipe(self, drive: DriveWipePlan, journal_entry: dict[str, Any]) -> bool:
        """Return whether a wiped drive still has the same samples as right after the wipe."""
        try:
            self.check_drive_identity(drive)
            return bool(
                journal_entry["method"] == drive["method"]
                and journal_entry["reads"] == self.read_block_samples(drive)
            )
        except HostError:
            return False

    def is_sanitizing(self, drive: DriveWipePlan) -> bool:
        """Return whether a sanitize operation of an earlier call still runs: a second one cannot be started."""
        if not drive["poll"]:
            return False
        code, out, __ = run_program(drive["poll"], timeout=60, **self.env)
        return code == 0 and parse_sanitize_status(out) == SANITIZE_RUNNING

    def check_drive_identity(self, drive: DriveWipePlan) -> None:
        """Raise HostError if the drive's serial or size differs from the plan."""
        columns = ["lsblk", "--json", "--bytes", "--output", "NAME,PATH,TYPE,SIZE,SERIAL,MOUNTPOINTS"]
        __, out, err = run_program(columns, timeout=60, **self.env)
        try:
            disks = {disk.get("path"): disk for disk in json.loads(out)["blockdevices"]}
        except (ValueError, KeyError):
            raise HostError(f"lsblk does not answer: {first_nonempty_line(err, out)}") from None
        listed = disks.get(drive["path"]) or {}
        serial, size = str(listed.get("serial") or "").strip(), int(listed.get("size") or 0)
        if (serial, size) != (drive["serial"], drive["size"]):
            description = f"{drive['path']} has serial {serial or '(none)'} and {size} bytes"
            raise HostError(
                f"{description}, planned were {drive['serial']} and {drive['size']} bytes: it was not changed"
            )

    def unmount_and_release_drive(self, drive: DriveWipePlan, command_log: list[dict[str, Any]]) -> None:
        """Unmount the drive and stop the arrays and volumes on it."""
        for mount in drive["unmount"]:
            self.run_recorded_command(["umount", mount], command_log)
        for argv in drive["release"]:
            if argv[0] == "cryptsetup" or Path(argv[-1]).exists():
                self.run_recorded_command(argv, command_log)

    def run_recorded_command(self, argv: list[str], command_log: list[dict[str, Any]]) -> str:
        """Run one command and record its output."""
        began = utc_timestamp()
        code, out, err = run_program(argv, timeout=self.timeout, **self.env)
        command_log.append(
            {
                "argv": argv,
                "began": began,
                "ended": utc_timestamp(),
                "code": code,
                "output": (out + err)[-MAX_OUTPUT_CHARACTERS:],
            }
        )
        if code:
            raise HostError(
                f"{' '.join(argv[:2])} exited with status {code}: {first_nonempty_line(err, out)}"
            )
        return out

    def wait_for_sanitize(self, drive: DriveWipePlan, command_log: list[dict[str, Any]]) -> None:
        """Wait until the drive reports the end of its sanitize operation."""
        deadline = time.monotonic() + self.timeout
        while drive["poll"]:
            out = self.run_recorded_command(drive["poll"], command_log)
            status = parse_sanitize_status(out)
            if status == SANITIZE_DONE:
                return
            if status != SANITIZE_RUNNING:
                raise HostError(f"the drive reports a failed sanitize operation (status {status})")
            if time.monotonic() > deadline:
                raise HostError(
                    f"the sanitize operation still runs after {self.timeout} s: run the play again to continue"
                )
            command_log.pop()  # only the last answer is evidence
            time.sleep(POLL_SECONDS)

    def read_block_samples(self, drive: DriveWipePlan) -> list[list[Any]]:
        """Return [digest, is zero] of sixteen blocks, spread from the drive's first to its last."""
        path = f"{self.fake_drives}/{Path(drive['path']).name}" if self.fake_drives else drive["path"]
        last = max(drive["size"] // SAMPLE_BYTES - 1, 0)
        digests = []
        try:
            with Path(path).open("rb", buffering=0) as device:
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(device.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                for place in range(SAMPLES):
                    device.seek(last * place // (SAMPLES - 1) * SAMPLE_BYTES)
                    block = device.read(SAMPLE_BYTES)
                    digests.append([hashlib.sha256(block).hexdigest(), not block.strip(b"\0")])
        except OSError as error:
            raise HostError(f"{path} cannot be read: {error.strerror}") from None
        return digests

    def compare_block_samples(self, drive: DriveWipePlan, before: list[list[Any]]) -> dict[str, int]:
        """Compare the samples with those from before the wipe; raise HostError if data is left."""
        after = self.read_block_samples(drive)
        stayed = sum(was[0] == is_[0] and not was[1] for was, is_ in zip(before, after))
        blank = sum(is_[1] for is_ in after)
        counts = {
            "places": SAMPLES,
            "held_data": sum(not was[1] for was in before),
            "still_there": stayed,
            "zero": blank,
        }
        if stayed:
            raise HostError(f"{stayed} of {SAMPLES} places still have their old data ({json.dumps(counts)})")
        if drive["zeroes"] and blank < SAMPLES:
            raise HostError(f"{SAMPLES - blank} of {SAMPLES} places are not zero ({json.dumps(counts)})")
        return counts

    def write_wipe_journal(self, drive: DriveWipePlan, state: str, **more: Any) -> None:
        """Write the journal in one rename."""
        self.journal[drive["serial"]] = {
            "state": state,
            "method": drive["method"],
            "at": utc_timestamp(),
            **more,
        }
        JOURNAL.parent.mkdir(parents=True, exist_ok=True)
        fresh = JOURNAL.with_suffix(".new")
        fresh.write_text(json.dumps(self.journal), encoding="utf-8")
        fresh.replace(JOURNAL)


def parse_sanitize_status(text: str) -> int:
    """Return the lowest three bits of the status in ``nvme sanitize-log -o json`` of any version."""
    try:
        log = json.loads(text)
    except ValueError:
        raise HostError("nvme sanitize-log is not JSON") from None
    inner = next((value for value in log.values() if isinstance(value, dict)), log)
    status = inner.get("sstat", log.get("sstat"))
    if isinstance(status, dict):
        status = status.get("status")
    if not isinstance(status, int):
        raise HostError("nvme sanitize-log does not report the state of the operation")
    return status & 7


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "plan": {"type": "dict", "required": True},
            "plan_id": {"type": "str", "required": True},
            "fake_drives": {"type": "path"},
            "timeout_seconds": {"type": "int", "default": 86400},
        },
        supports_check_mode=True,
    )
    plan = module.params["plan"]
    if module.params["plan_id"] != plan["id"]:
        module.fail_json(
            msg=f"plan {module.params['plan_id']} was confirmed, but this is plan {plan['id']}: read the new plan first"
        )
    if module.check_mode:
        module.exit_json(changed=bool(plan["drives"]), evidence=[])
    wiper = DriveWiper(module.params["fake_drives"], module.params["timeout_seconds"])
    evidence = [wiper.wipe_drive(drive) for drive in plan["drives"]]
    failed = [drive for drive in evidence if not drive["wiped"]]
    facts = {"plan": plan["id"], "complete": plan["complete"] and not failed, "evidence": evidence}
    facts["refused"] = plan["refused"]
    report = {"node": module.params["node"], "event": "wiped", "facts": facts}
    result = {
        "changed": any("resumed" not in drive or drive.get("commands") for drive in evidence),
        "evidence": evidence,
        "gpufleet": report,
    }
    if failed:
        module.fail_json(msg="; ".join(f"{drive['path']}: {drive['reason']}" for drive in failed), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
