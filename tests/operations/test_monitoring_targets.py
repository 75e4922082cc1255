"""The exporters' endpoints as Prometheus' file_sd: typed, labelled, and accepted by Prometheus' own promtool."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from gpufleet.cli import nodes
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.operations import ingest, monitoring_targets
from gpufleet.operations.task_events import build_task_event

START = datetime(2026, 11, 22, tzinfo=UTC)
NODE = {"name": "node", "port": 9100, "scheme": "http"}
DCGM = {"name": "dcgm", "port": 9400, "scheme": "https"}
ADDRESSES = {"gpu01": "10.0.0.4", "gpu02": "fd00::5", "gpu03": None}


@pytest.fixture
def registry(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    with Registry(url) as registry:
        for slot, (name, address) in enumerate(ADDRESSES.items(), start=1):
            declared = {"kind": "gpu_server", "template": "train"} | ({"address": address} if address else {})
            place = NodeIdentity(rack="r1", slot=str(slot))
            registry.apply_observation(
                NodeObservation("rack:r1", name, place, declared=declared, observed_at=START)
            )
        yield registry


def report(registry, node, exporters):
    result = {
        "gpufleet": {
            "node": node, "event": "configured", "part": "monitoring", "facts": {"exporters": exporters},
        }
    }  # fmt: skip
    event = build_task_event(node, "ok", result, action="gpufleet.fleet.report", at=datetime.now(UTC))
    ingest.ingest_events(registry, [event])


def targets(*arguments):
    result = CliRunner().invoke(nodes.nodes_command, ["targets", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_each_reported_exporter_is_a_target_with_labels(registry):
    report(registry, "gpu01", [NODE, DCGM])
    assert targets() == [
        {
            "targets": ["10.0.0.4:9100"],
            "labels": {
                "job": "node", "instance": "gpu01", "__scheme__": "http", "kind": "gpu_server",
                "state": "expected", "rack": "r1", "slot": "1", "template": "train",
            },
        },
        {
            "targets": ["10.0.0.4:9400"],
            "labels": {
                "job": "dcgm", "instance": "gpu01", "__scheme__": "https", "kind": "gpu_server",
                "state": "expected", "rack": "r1", "slot": "1", "template": "train",
            },
        },
    ]  # fmt: skip


def test_nodes_without_report_or_address_and_retired_nodes_have_no_target(registry):
    report(registry, "gpu03", [NODE])
    assert targets() == []
    report(registry, "gpu01", [NODE])
    registry.retire_node("gpu01", "sold")
    assert targets() == []


def test_ipv6_addresses_have_brackets(registry):
    report(registry, "gpu02", [NODE])
    assert targets("gpu02")[0]["targets"] == ["[fd00::5]:9100"]


@pytest.mark.parametrize(
    "hostile",
    [
        "not a list",
        [{"name": "node", "port": 0, "scheme": "http"}],
        [{"name": "node", "port": True, "scheme": "http"}],
        [{"name": "node", "port": "9100", "scheme": "http"}],
        [{"name": "node\nrack", "port": 9100, "scheme": "http"}],
        [{"name": "n" * 40, "port": 9100, "scheme": "http"}],
        [{"name": "node", "port": 9100, "scheme": "file"}],
        [["node"]],
    ],
)
def test_report_of_another_form_gives_no_target(registry, hostile):
    report(registry, "gpu01", hostile)
    assert targets() == []


def test_a_report_cannot_fill_the_file(registry):
    report(registry, "gpu01", [NODE] * 1000)
    assert len(targets()) == monitoring_targets.MAX_ENDPOINTS


def test_file_is_replaced_and_prometheus_accepts_it(registry, tmp_path):
    report(registry, "gpu01", [NODE, DCGM])
    report(registry, "gpu02", [NODE])
    file = tmp_path / "targets.json"
    file.write_text("old")
    result = CliRunner().invoke(nodes.nodes_command, ["targets", "--out", str(file)])
    assert result.output == f"{file}: 3 targets on 2 nodes\n"
    assert file.stat().st_mode & 0o777 == 0o644
    config = {"scrape_configs": [{"job_name": "fleet", "file_sd_configs": [{"files": [str(file)]}]}]}
    (tmp_path / "prometheus.yml").write_text(json.dumps(config))
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: gpufleet doctor --fix --tests")
    checked = subprocess.run(
        [promtool, "check", "config", str(tmp_path / "prometheus.yml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr


def test_unwritable_file_is_one_line(registry, tmp_path):
    result = CliRunner().invoke(nodes.nodes_command, ["targets", "--out", str(tmp_path / "no/t.json")])
    assert "can't be written: no such file or directory" in str(result.exception)
