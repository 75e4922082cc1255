"""The record of a run, so that one that did not finish can be resumed on the hosts that are not done yet.

The record is in the run's artifacts. It holds the names of the extra variables, never their values.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpufleet.boundary import OWN_STATE, decode_json_object, read_bytes, write_text
from gpufleet.errors import InputError
from gpufleet.paths import ensure_private_folder

FILE = "run.json"
LISTS = ("extra_vars", "hosts", "done", "tags", "skip_tags")  # older records have no tags


@dataclass(frozen=True)
class RunRecord:
    """A run as it was requested, and the hosts that finished without a failure."""

    play: str
    limit: str
    burn_in: str
    check: bool
    extra_vars: tuple[str, ...]
    hosts: tuple[str, ...]
    done: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()

    @property
    def remaining_hosts(self) -> tuple[str, ...]:
        """Return the hosts that are still to be done."""
        return tuple(host for host in self.hosts if host not in self.done)

    def with_done_hosts(self, names: Iterable[str], undone: Iterable[str] = ()) -> RunRecord:
        """Return the record with more hosts done, and without those that turned out not to be."""
        return replace(self, done=tuple(sorted({*self.done, *names} - set(undone))))


def write_run_record(artifacts: Path, record: RunRecord) -> None:
    """Write the record to a temporary file and rename it into place."""
    ensure_private_folder(artifacts)
    write_text(artifacts / FILE, json.dumps(asdict(record), indent=1) + "\n", mode=0o600)


def read_run_record(artifacts: Path) -> RunRecord:
    """Return a run's record; raise InputError where the folder has none."""
    path = artifacts / FILE
    if not path.is_file():
        remedy = "name a run of `gpufleet configure`, or omit the name for the newest run"
        raise InputError(f"run {artifacts.name!r} not found", key="--resume", remedy=remedy)
    try:
        fields = decode_json_object(read_bytes(path, OWN_STATE), str(path), OWN_STATE)
        lists = {key: tuple(fields[key]) for key in LISTS if key in fields}
        record = RunRecord(**{**fields, **lists})
    except (ValueError, KeyError, TypeError) as error:  # an InputError is a ValueError
        raise InputError("is damaged", where=str(path), remedy="start a new run") from error
    lists_of_names = (record.hosts, record.done, record.extra_vars, record.tags, record.skip_tags)
    names = (*itertools.chain(*lists_of_names), record.play, record.limit, record.burn_in)
    if not all(isinstance(name, str) for name in names):
        raise InputError("is damaged", where=str(path), remedy="start a new run")
    return record


def find_newest_run_name(artifacts_folder: Path) -> str:
    """Return the name of the newest run that has a record."""
    records = sorted(artifacts_folder.glob(f"*/{FILE}"), key=lambda path: path.stat().st_mtime)
    if not records:
        raise InputError("no run to resume", key="--resume", remedy="run gpufleet configure first")
    return records[-1].parent.name
