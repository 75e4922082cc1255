# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Wipe the drives of a confirmed plan, look whether anything is left, and bring back the evidence."""

from __future__ import annotations

DOCUMENTATION = """
module: wipe
short_description: Wipe the drives of a confirmed plan and return evidence
description:
  - Wipes exactly the drives that the plan lists, with its commands. A drive whose serial or size is another now is not
    touched and fails the task.
  - Of sixteen places on each drive it is read before and after whether what was there is gone. A place that still
    reads as before fails the drive, whatever its tool said.
  - A journal in memory-backed C(/run) notes each drive as begun and as done. After an interruption the same call goes
    on; drives that are done are not wiped again, one that was only begun is.
  - The other drives are wiped even where one fails.
options:
  node: {description: The node's name in the inventory., type: str, required: true}
  plan: {description: What C(gpufleet.fleet.wipe_plan) returned as I(plan)., type: dict, required: true}
  plan_id: {description: The id of the plan that was confirmed., type: str, required: true}
  stand_in: {description: "In a rehearsal, the folder of the host's file-backed drive.", type: path}
  timeout_seconds: {description: How long one drive may take., type: int, default: 86400}
author: gpufleet contributors
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

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import Trouble, first_words, run  # noqa: E402

JOURNAL = Path("/run/gpufleet/wipe.json")
PLACES, BLOCK = 16, 4096
POLL_SECONDS = 2
SANITIZE_DONE, SANITIZE_RUNNING = 1, 2  # nvme-sanitize-log(1): status, lowest three bits
KEPT_OUTPUT = 4000


class DrivePlan(TypedDict):
    """How one drive is wiped: ``gpufleet.nodes.wiping`` makes it."""

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


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


class Wiper:
    """Wipes one drive after another; ``stand_in`` is a rehearsal's folder."""

    def __init__(self, stand_in: str | None, timeout: float) -> None:
        self.stand_in, self.timeout = stand_in, timeout
        self.env = (
            {"PATH": f"{stand_in}/bin:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"} if stand_in else {}
        )
        self.journal = json.loads(JOURNAL.read_text(encoding="utf-8")) if JOURNAL.is_file() else {}

    def wipe(self, drive: DrivePlan) -> dict[str, Any]:
        """Wipe one drive and return its evidence."""
        told: dict[str, Any] = {
            "path": drive["path"],
            "by_id": drive["by_id"],
            "model": drive["model"],
            "serial": drive["serial"],
            "size": drive["size"],
            "method": drive["method"],
            "strength": drive["strength"],
        }
        commands: list[dict[str, Any]] = []
        noted = self.journal.get(drive["serial"], {})
        if noted.get("state") == "done" and self.untouched(drive, noted):
            return {**told, **noted["evidence"], "resumed": "done by an earlier call and unchanged since"}
        if noted:
            told["resumed"] = f"begun at {noted['at']} and not known to have ended: done again"
        told.update(began=now(), commands=commands, stand_in=bool(self.stand_in))
        try:
            self.check(drive)
            self.free(drive, commands)
            before = self.samples(drive)
            self.note(drive, "begun")
            if not (noted and self.sanitizing(drive)):
                for argv in drive["commands"]:
                    self.command(argv, commands)
            self.wait(drive, commands)
            told["read_back"] = self.judge(drive, before)
        except Trouble as trouble:
            return {**told, "ended": now(), "wiped": False, "why": trouble.msg}
        done = {**told, "ended": now(), "wiped": True}
        self.note(drive, "done", evidence=done, reads=self.samples(drive))
        return done

    def untouched(self, drive: DrivePlan, noted: dict[str, Any]) -> bool:
        """Say whether a drive that was wiped still reads as it did right after."""
        try:
            self.check(drive)
            return bool(noted["method"] == drive["method"] and noted["reads"] == self.samples(drive))
        except Trouble:
            return False

    def sanitizing(self, drive: DrivePlan) -> bool:
        """Say whether an operation that an earlier call began still runs: it can't be begun twice."""
        if not drive["poll"]:
            return False
        code, out, _ = run(drive["poll"], timeout=60, **self.env)
        return code == 0 and sanitize_status(out) == SANITIZE_RUNNING

    def check(self, drive: DrivePlan) -> None:
        """Refuse a drive that is another now than when it was planned."""
        columns = ["lsblk", "--json", "--bytes", "--output", "NAME,PATH,TYPE,SIZE,SERIAL,MOUNTPOINTS"]
        _, out, err = run(columns, timeout=60, **self.env)
        try:
            disks = {disk.get("path"): disk for disk in json.loads(out)["blockdevices"]}
        except (ValueError, KeyError):
            raise Trouble(f"lsblk does not answer: {first_words(err, out)}") from None
        there = disks.get(drive["path"]) or {}
        serial, size = str(there.get("serial") or "").strip(), int(there.get("size") or 0)
        if (serial, size) != (drive["serial"], drive["size"]):
            told = f"{drive['path']} is serial {serial or 'none'}, {size} bytes now"
            raise Trouble(f"{told}; planned was {drive['serial']}, {drive['size']} bytes: not touched")

    def free(self, drive: DrivePlan, commands: list[dict[str, Any]]) -> None:
        """End what stands between the drive and its users."""
        for mount in drive["unmount"]:
            self.command(["umount", mount], commands)
        for argv in drive["release"]:
            if argv[0] == "cryptsetup" or Path(argv[-1]).exists():
                self.command(argv, commands)

    def command(self, argv: list[str], commands: list[dict[str, Any]]) -> str:
        """Run one command and keep what it said."""
        began = now()
        code, out, err = run(argv, timeout=self.timeout, **self.env)
        commands.append(
            {"argv": argv, "began": began, "ended": now(), "code": code, "output": (out + err)[-KEPT_OUTPUT:]}
        )
        if code:
            raise Trouble(f"{' '.join(argv[:2])} ended with {code}: {first_words(err, out)}")
        return out

    def wait(self, drive: DrivePlan, commands: list[dict[str, Any]]) -> None:
        """Wait until the drive says that its sanitize operation has ended."""
        deadline = time.monotonic() + self.timeout
        while drive["poll"]:
            out = self.command(drive["poll"], commands)
            status = sanitize_status(out)
            if status == SANITIZE_DONE:
                return
            if status != SANITIZE_RUNNING:
                raise Trouble(f"the drive says that its sanitize operation did not succeed (status {status})")
            if time.monotonic() > deadline:
                raise Trouble(
                    f"the sanitize operation has not ended after {self.timeout} s: run again to go on"
                )
            commands.pop()  # only the last answer is evidence
            time.sleep(POLL_SECONDS)

    def samples(self, drive: DrivePlan) -> list[list[Any]]:
        """Return a digest and whether it is blank for places spread over the drive, from its first to its last."""
        path = f"{self.stand_in}/{Path(drive['path']).name}" if self.stand_in else drive["path"]
        last = max(drive["size"] // BLOCK - 1, 0)
        found = []
        try:
            with Path(path).open("rb", buffering=0) as device:
                if hasattr(os, "posix_fadvise"):
                    os.posix_fadvise(device.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                for place in range(PLACES):
                    device.seek(last * place // (PLACES - 1) * BLOCK)
                    block = device.read(BLOCK)
                    found.append([hashlib.sha256(block).hexdigest(), not block.strip(b"\0")])
        except OSError as error:
            raise Trouble(f"{path} can't be read: {error.strerror}") from None
        return found

    def judge(self, drive: DrivePlan, before: list[list[Any]]) -> dict[str, int]:
        """Compare the places with what was there before."""
        after = self.samples(drive)
        stayed = sum(was[0] == is_[0] and not was[1] for was, is_ in zip(before, after))
        blank = sum(is_[1] for is_ in after)
        told = {
            "places": PLACES,
            "held_data": sum(not was[1] for was in before),
            "still_there": stayed,
            "zero": blank,
        }
        if stayed:
            raise Trouble(f"{stayed} of {PLACES} places still read as before ({json.dumps(told)})")
        if drive["zeroes"] and blank < PLACES:
            raise Trouble(f"{PLACES - blank} of {PLACES} places are not zero ({json.dumps(told)})")
        return told

    def note(self, drive: DrivePlan, state: str, **more: Any) -> None:
        """Write the journal, whole or not at all."""
        self.journal[drive["serial"]] = {"state": state, "method": drive["method"], "at": now(), **more}
        JOURNAL.parent.mkdir(parents=True, exist_ok=True)
        fresh = JOURNAL.with_suffix(".new")
        fresh.write_text(json.dumps(self.journal), encoding="utf-8")
        fresh.replace(JOURNAL)


def sanitize_status(text: str) -> int:
    """Return the lowest three bits of ``nvme sanitize-log -o json``'s status, wherever the version puts it."""
    try:
        told = json.loads(text)
    except ValueError:
        raise Trouble("nvme sanitize-log is not JSON") from None
    inner = next((value for value in told.values() if isinstance(value, dict)), told)
    status = inner.get("sstat", told.get("sstat"))
    if isinstance(status, dict):
        status = status.get("status")
    if not isinstance(status, int):
        raise Trouble("nvme sanitize-log does not say how the operation stands")
    return status & 7


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "plan": {"type": "dict", "required": True},
            "plan_id": {"type": "str", "required": True},
            "stand_in": {"type": "path"},
            "timeout_seconds": {"type": "int", "default": 86400},
        },
        supports_check_mode=True,
    )
    plan = module.params["plan"]
    if module.params["plan_id"] != plan["id"]:
        module.fail_json(
            msg=f"confirmed was plan {module.params['plan_id']}, this is {plan['id']}: look again"
        )
    if module.check_mode:
        module.exit_json(changed=bool(plan["drives"]), evidence=[])
    wiper = Wiper(module.params["stand_in"], module.params["timeout_seconds"])
    evidence = [wiper.wipe(drive) for drive in plan["drives"]]
    failed = [one for one in evidence if not one["wiped"]]
    facts = {"plan": plan["id"], "complete": plan["complete"] and not failed, "evidence": evidence}
    facts["refused"] = plan["refused"]
    told = {"node": module.params["node"], "event": "wiped", "facts": facts}
    result = {
        "changed": any("resumed" not in one or one.get("commands") for one in evidence),
        "evidence": evidence,
        "gpufleet": told,
    }
    if failed:
        module.fail_json(msg="; ".join(f"{one['path']}: {one['why']}" for one in failed), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
