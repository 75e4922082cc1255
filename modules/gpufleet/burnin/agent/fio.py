"""fio: random writes, each block with a checksum that fio reads back and verifies while it runs."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from .host import HostAccess

# Blocks written before fio reads them back: 16 MiB, more than a drive's own write buffer would answer at once.
BACKLOG_BLOCKS = 4096
JOB = (
    "--name=burn-in",
    "--rw=randwrite",
    "--bs=4k",
    "--iodepth=16",
    "--ioengine=libaio",
    "--direct=1",
    "--size=64m",
    "--time_based",
    "--thread",  # a job that is a process of its own outlives fio
    "--verify=crc32c",
    "--verify_fatal=1",
    f"--verify_backlog={BACKLOG_BLOCKS}",
    "--verify_state_save=0",  # it would leave a file in the current folder
    "--output-format=json",
)


def run_fio(host: HostAccess, folder: str) -> dict[str, Any]:
    """Run fio's verified load where asked for and present."""
    seconds = host.get_parameter("fio_seconds", 0.0)
    if not seconds:
        return {"ran": False, "reason": "not requested (fio_seconds)"}
    if host.which("fio") is None:
        return {"ran": False, "reason": "fio is not installed"}
    name = os.path.join(folder, f".gpufleet-fio-{os.getpid()}")  # noqa: PTH118 - descriptors throughout
    output = host.run(["fio", *JOB, f"--filename={name}", f"--runtime={seconds:g}"], seconds + 60)
    with contextlib.suppress(OSError):
        os.unlink(name)  # noqa: PTH108 - descriptors throughout
    return {"ran": True, "code": output.code, **parse_fio_report(output.out), "error": output.err[-300:]}


def parse_fio_report(text: str) -> dict[str, Any]:
    """Keep fio's error, rates and latencies out of its long report, which messages may precede."""
    try:
        report = json.loads(text[max(text.find("{\n"), 0) :])
        job = report["jobs"][0]
        read, write = job["read"], job["write"]
        facts = {
            "error_code": job["error"],
            "read_ios": read["total_ios"],
            "written_ios": write["total_ios"],
            "read_iops": read["iops"],
            "write_iops": write["iops"],
        }
    except (ValueError, KeyError, IndexError, TypeError):
        return {"text": text[-300:]}
    completion = write.get("clat_ns", {})
    if isinstance(completion, dict):
        facts["write_p99_ns"] = completion.get("percentile", {}).get("99.000000")
        facts["write_worst_ns"] = completion.get("max")
    return {"version": report.get("fio version"), **facts}
