"""Test that a preview of 5,000 resources is priced within the bounds of memory and time."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from programs.large import build_large_preview

COUNT = 5000


def test_five_thousand_resources_need_at_most_100_mb(tmp_path):
    document = build_large_preview(COUNT)
    assert len({step["urn"] for step in document["steps"]}) == COUNT
    path = tmp_path / "preview.json"
    path.write_text(json.dumps(document))
    command = [sys.executable, "-m", "gpufleet", "cost", "diff", "--preview", str(path), "--format", "json"]
    variables = {**os.environ, "GPUFLEET_PRICES": "embedded"}
    with (tmp_path / "diff.json").open("wb") as output:
        process = subprocess.Popen(command, cwd=tmp_path, env=variables, stdout=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    report = json.loads((tmp_path / "diff.json").read_text())
    assert len({row["urn"] for row in report["resources"]}) > COUNT / 10
    assert report["after"]["usd_per_month"] > 100_000
    megabytes = used.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    assert megabytes < 100
    assert used.ru_utime < 4, "0.7 s on an idle core; 1 s is the budget"
