"""Test that a preview of 5,000 resources is priced within its bound of memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from programs.large import build_large_preview

COUNT = 5000
# A process counts the memory of the one that it was forked from: a small one starts and measures the command.
MEASURE = """
import json, resource, subprocess, sys
subprocess.run(sys.argv[2:], stdout=open(sys.argv[1], "wb"), check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_five_thousand_resources_need_at_most_100_mb(tmp_path):
    document = build_large_preview(COUNT)
    assert len({step["urn"] for step in document["steps"]}) == COUNT
    preview, report = tmp_path / "preview.json", tmp_path / "diff.json"
    preview.write_text(json.dumps(document))
    (tmp_path / "policy.yaml").write_text("unknown_change: allow\n")  # not all of it has a price
    command = [sys.executable, "-m", "gpufleet", "cost", "diff", "--preview", preview, "--format", "json"]
    command += ["--policy", tmp_path / "policy.yaml"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, report, *command],
        cwd=tmp_path,
        env={**os.environ, "GPUFLEET_PRICES": "embedded"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(report.read_text())
    assert len({row["urn"] for row in found["resources"]}) > COUNT / 10
    assert found["after"]["usd_per_month"] > 100_000
    assert int(done.stdout) / (1e6 if sys.platform == "darwin" else 1e3) < 100  # bytes on macOS, else KiB
