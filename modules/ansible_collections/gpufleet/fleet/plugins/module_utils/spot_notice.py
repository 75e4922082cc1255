# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""Watch for the notice that the cloud takes this machine back; drain the machine, and record both.

Usage: python3 -m spot.spot_notice CONFIG, with CONFIG in JSON, see ``Settings``.

The role spot_notice installs a copy as gpufleet-spot-notice.service. The program is a client of the cloud's metadata
service only, and listens on nothing. At a notice it runs the executables of the drain folder in the order of their
names, within the time that is left, and then tells Azure that it is ready. ``state_file`` has the notice and every
hook's result, ``metrics_file`` the same for the node exporter. A SIGTERM, which systemd sends at a shutdown, asks once
more: on Google Cloud the shutdown and the notice come together. Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from .spot_metadata import SOURCES, MetadataClient, MetadataError, Notice, NoticeSource

BOOT_ID = "/proc/sys/kernel/random/boot_id"
MARGIN_SECONDS = 2.0  # left of the notice for the acknowledgement and the files
GRACE_SECONDS = 2.0  # between a hook's SIGTERM and its SIGKILL
METRICS_SECONDS = 60.0  # between two writes without news
HOOK_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?<!\.bak)(?<!\.orig)(?<!\.rpmsave)(?<!\.rpmnew)")
FINAL_KINDS = ("preempt", "terminate")
REBALANCE = "rebalance"  # only a higher risk, so far


class StopRequestedError(Exception):
    """SIGTERM came while the program only waited."""


@dataclass(frozen=True)
class Settings:
    """The configuration."""

    cloud: str
    address: str
    drain_folder: str
    drain_seconds: float
    drain_on_rebalance: bool
    poll_seconds: float
    state_file: str
    metrics_file: str  # empty: none


def read_settings(path: str) -> Settings:
    """Return the configuration; every key is required."""
    return Settings(**json.loads(Path(path).read_text(encoding="utf-8")))


class Watcher:
    """The loop: ask, drain at a notice, record."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.source: NoticeSource = SOURCES[settings.cloud](MetadataClient(settings.address))
        self.state = self._restore_state()
        self._is_stopping = self._only_waits = False
        self._outage = ""
        self._metrics_at = 0.0

    def run(self) -> None:
        """Watch until SIGTERM."""
        signal.signal(signal.SIGTERM, self._handle_stop)
        self._record()
        with contextlib.suppress(StopRequestedError):
            while True:
                self.check(may_wait=True)
                with self._waiting():
                    time.sleep(self.settings.poll_seconds)
        self.check(may_wait=False)

    def check(self, *, may_wait: bool) -> None:
        """Ask once and act on the answer."""
        try:
            with self._waiting() if may_wait else contextlib.nullcontext():
                notices = self.source.poll(may_wait=may_wait)
        except MetadataError as error:
            self._note_outage(str(error))
            return
        self._note_outage("")
        for notice in notices:
            self._handle(notice)
        if time.monotonic() - self._metrics_at > METRICS_SECONDS:
            self._write_metrics()

    def _handle(self, notice: Notice) -> None:
        announced = (self.state["notice"] or {}).get("kind")
        if notice.id in self.state["handled"] or (notice.kind == REBALANCE and announced in FINAL_KINDS):
            return
        is_final = notice.kind in FINAL_KINDS
        self.state["notice"] = {**asdict(notice), "seen_at": time.time()}
        log(f"notice: {notice.kind}, action {notice.action}, deadline {notice.deadline}")
        if is_final or self.settings.drain_on_rebalance:
            self._drain(notice)
        else:
            self.state["status"] = "at_risk"
        if is_final:
            self._acknowledge(notice)
        self.state["handled"].append(notice.id)
        self._record()

    def _drain(self, notice: Notice) -> None:
        started = time.monotonic()
        self.state.update(status="draining", hooks=[])
        self._record()
        end = started + self._drain_seconds(notice)
        for hook, refusal in list_hooks(Path(self.settings.drain_folder)):
            result = {"name": hook.name, "outcome": refusal} if refusal else run_hook(hook, notice, end, self)
            log(f"hook {hook.name}: {result['outcome']}")
            self.state["hooks"].append(result)
        succeeded = all(result["outcome"] == "succeeded" for result in self.state["hooks"])
        self.state["status"] = "drained" if succeeded else "drain_failed"
        self.state["drain_seconds"] = round(time.monotonic() - started, 3)

    def _drain_seconds(self, notice: Notice) -> float:
        """Return the time for all hooks: what is set, and no more than what the notice leaves."""
        limit = self.settings.drain_seconds
        if notice.deadline is None:
            return limit
        return max(0.0, min(limit, notice.deadline - MARGIN_SECONDS - time.time()))

    def _acknowledge(self, notice: Notice) -> None:
        """Acknowledge the notice. If that fails, the cloud goes on at the deadline anyway."""
        try:
            self.source.acknowledge(notice)
        except MetadataError as error:
            log(f"not acknowledged: {error}")

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Let a SIGTERM end the block; one that came before it ends it at once. No other code is interrupted."""
        self._only_waits = True
        try:
            if self._is_stopping:
                raise StopRequestedError
            yield
        finally:
            self._only_waits = False

    def _handle_stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._is_stopping = True
        if self._only_waits:
            self._only_waits = False  # a second SIGTERM must not interrupt the last check
            raise StopRequestedError

    def _note_outage(self, problem: str) -> None:
        """Log an outage when it starts and when it is over."""
        if problem != self._outage:
            log(problem or "the metadata service answers again")
            self._outage = problem
            self._write_metrics()

    def _restore_state(self) -> dict[str, Any]:
        """Return the state of this boot; that of an earlier boot becomes ``previous`` if it had a notice."""
        boot = Path(BOOT_ID).read_text(encoding="ascii").strip()
        fresh: dict[str, Any] = {
            "cloud": self.settings.cloud,
            "boot_id": boot,
            "status": "watching",
            "notice": None,
            "hooks": [],
            "drain_seconds": None,
            "handled": [],
            "previous": None,
        }
        try:
            old = json.loads(Path(self.settings.state_file).read_text(encoding="utf-8"))
            if old["boot_id"] == boot:
                return {**fresh, **old}
            last = {key: old[key] for key in ("status", "notice", "hooks", "drain_seconds")}
            return {**fresh, "previous": last if old["notice"] else old.get("previous")}
        except (OSError, ValueError, KeyError, TypeError):
            return fresh

    def _record(self) -> None:
        write_atomically(self.settings.state_file, json.dumps(self.state, indent=1) + "\n")
        self._write_metrics()

    def _write_metrics(self) -> None:
        self._metrics_at = time.monotonic()
        if self.settings.metrics_file:
            write_atomically(self.settings.metrics_file, self._metrics_text())

    def _metrics_text(self) -> str:
        kind, status = (self.state["notice"] or {}).get("kind"), self.state["status"]
        metrics = {
            "gpufleet_spot_notice": {
                f'{{kind="{each}"}}': each == kind for each in (*FINAL_KINDS, REBALANCE)
            },
            "gpufleet_spot_drained": {"": status == "drained"},
            "gpufleet_spot_drain_failed": {"": status == "drain_failed"},
            "gpufleet_spot_metadata_up": {"": not self._outage},
        }
        lines = []
        for name, samples in metrics.items():
            lines.append(f"# TYPE {name} gauge")
            lines += [f"{name}{labels} {int(value)}" for labels, value in samples.items()]
        return "\n".join(lines) + "\n"


def list_hooks(folder: Path) -> list[tuple[Path, str]]:
    """Return the hooks in the order of their names, each with the reason why it must not run, or an empty text.

    Hooks run as root: a file that others could change must not.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if HOOK_NAME.fullmatch(path.name))
    except OSError:
        return []
    return [(path, find_hook_problem(path)) for path in paths]


def find_hook_problem(path: Path) -> str:
    """Return why a hook must not run; empty if it may."""
    for place in (path.parent, path):
        info = place.stat()
        if info.st_uid not in (0, os.geteuid()) or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"refused: {place} can be changed by others than root"
    is_program = path.is_file() and not path.is_symlink() and os.access(path, os.X_OK)
    return "" if is_program else "refused: not an executable file"


def run_hook(hook: Path, notice: Notice, end: float, watcher: Watcher) -> dict[str, Any]:
    """Run a hook until ``end`` (monotonic time), with the notice in its environment."""
    started = time.monotonic()
    environment = {
        **os.environ,
        "GPUFLEET_CLOUD": watcher.settings.cloud,
        "GPUFLEET_NOTICE": notice.kind,
        "GPUFLEET_ACTION": notice.action,
        "GPUFLEET_DEADLINE": "" if notice.deadline is None else str(int(notice.deadline)),
    }
    if started >= end:
        return {"name": hook.name, "outcome": "not run: no time left", "seconds": 0.0}
    try:
        process = subprocess.Popen([hook], env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        return {"name": hook.name, "outcome": f"failed: {error}", "seconds": 0.0}
    try:
        status = process.wait(timeout=end - started)
        outcome = "succeeded" if status == 0 else f"failed: status {status}"
    except subprocess.TimeoutExpired:
        stop_process_group(process)
        outcome = "stopped: the time was over"
    return {"name": hook.name, "outcome": outcome, "seconds": round(time.monotonic() - started, 3)}


def stop_process_group(process: subprocess.Popen[bytes]) -> None:
    """Stop a hook and everything that it started."""
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def write_atomically(path: str, text: str) -> None:
    """Write a file so that a reader sees the old or the new text; a full disk must not stop the watching."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.new")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o644)
        temporary.replace(target)
    except OSError as error:
        log(f"{path} is not written: {error}")


def log(text: str) -> None:
    """Write a line to the journal."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    Watcher(read_settings(sys.argv[1])).run()
