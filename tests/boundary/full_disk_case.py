"""Runs on a small disk: replace each file that matters at several levels of free space; print what came of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

from full_disk import fill_disk
from gpufleet.boundary import write_text
from gpufleet.errors import GpufleetError
from gpufleet.operations import export, passport, retire
from gpufleet.operations.monitoring_targets import TargetGroup, write_file_sd
from gpufleet.remote import RunRecord, write_run_record

SIZE = 100_000
EVIDENCE = {"complete": True, "plan": "p" * SIZE, "evidence": [], "refused": []}
NODE = SimpleNamespace(name="n1", id="i", serial="s", machine="m", rack="r1", slot="1", kind="server")


def make_record(text):
    names = {"hosts": (), "done": ()}
    fields = {name: names.get(name, text) for name in RunRecord.__dataclass_fields__}
    return RunRecord(**fields)


WRITERS = {
    "report": lambda folder, text: write_text(folder / "file", text),
    "targets": lambda folder, text: write_file_sd(folder / "file", [TargetGroup(text, {})]),
    "known hosts": lambda folder, text: export.update_known_hosts(folder / "file", [f"host {text}"]),
    "run record": lambda folder, text: write_run_record(folder, make_record(text)),
    "signing key": lambda folder, _: passport.create_key(folder / "file"),
    "certificate": lambda folder, _: retire.write_wipe_certificate(
        folder, NODE, SimpleNamespace(reason="sold"), EVIDENCE
    ),
}


def read_files(folder):
    return {
        str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()
    }


def main():
    """Print the result of each file and level as a line of JSON."""
    disk = Path(sys.argv[1])
    for number, (name, write) in enumerate(WRITERS.items()):
        for leave in (0, 4096, 65_536, 2_000_000):
            folder = disk / f"{number}-{leave}"
            folder.mkdir()
            if name in ("report", "targets", "known hosts"):
                write(folder, "old")
            before, error = read_files(folder), None
            with fill_disk(disk, leave):
                try:
                    write(folder, "n" * SIZE)
                except GpufleetError as fault:
                    error = [fault.exit_code, str(fault), fault.hint]
                after = read_files(folder)
            print(
                json.dumps({"name": name, "leave": leave, "error": error, "before": before, "after": after})
            )


if __name__ == "__main__":
    main()
