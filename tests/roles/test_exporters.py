"""Test Debian's real exporters on a booted host: they answer Prometheus, with a password, and converge."""

from __future__ import annotations

import pytest

PLAYS = ("exporters",)
METRICS = "http://127.0.0.1:9100/metrics"


@pytest.fixture(scope="module")
def base01(converge_play, lab):
    converge_play("exporters")
    return lab.host("base01")


def test_exporters_converge_and_the_second_run_changes_nothing(converge_play):
    converge_play("exporters").assert_idempotent()


def test_node_exporter_answers_who_knows_the_password(base01):
    ask = "python3 -c \"import urllib.request as u; r = u.Request('{}', headers={}); print(u.urlopen(r).read())\""
    refused = base01.run(ask.format(METRICS, "{}"))
    assert "HTTP Error 401" in refused.stderr
    # The header's value is the base64 of prometheus:fleet.
    given = base01.run(ask.format(METRICS, "{'Authorization': 'Basic cHJvbWV0aGV1czpmbGVldA=='}"))
    assert "node_uname_info" in given.stdout


def test_disk_state_is_collected_by_timers(base01):
    for timer in ("smartmon", "nvme"):
        assert base01.service(f"prometheus-node-exporter-{timer}.timer").is_enabled


def test_web_configuration_is_readable_by_its_group_only(base01):
    file = base01.file("/etc/gpufleet/exporter-web.yml")
    assert (file.user, file.group, file.mode) == ("root", "prometheus", 0o640)


def test_endpoints_and_missing_exporters_are_reported(converge_play):
    runs = converge_play("exporters")
    report = next(
        r.output["msg"] for r in runs.second.results_of("base01") if r.task == "What exporters found"
    )
    assert report["endpoints"] == [{"name": "node", "port": 9100, "scheme": "http"}]
    timers = report["not_applied"].pop("units")
    assert set(timers) == {f"prometheus-node-exporter-{name}.timer" for name in ("smartmon", "nvme")}
    assert all("its start condition is not met" in reason for reason in timers.values()), (
        "a container has no disks"
    )
    assert report["not_applied"] == {
        "blade": "the Compute Blade agent is not installed: give blade_agent_package"
    }
