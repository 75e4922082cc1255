"""Test the service that watches for spot notices against the documented metadata services of the three clouds."""

from __future__ import annotations

import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from email.utils import formatdate
from pathlib import Path

import pytest

from ansible_collections.gpufleet.fleet.plugins.filter.spot_notice import (
    parse_spot_notice_state,
    spot_notice_resources,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils import spot_metadata, spot_notice

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location(
    "metadata_emulator", ROOT / "tests/roles/files/metadata_emulator.py"
)
emulator = importlib.util.module_from_spec(spec)
spec.loader.exec_module(emulator)

FAR = 4102444800  # the first second of 2100
EVENT = {
    "EventId": "602d9444-d2cd-49c7-8624-8643e7171297",
    "EventType": "Preempt",
    "EventStatus": "Scheduled",
    "ResourceType": "VirtualMachine",
    "Resources": ["other-1", emulator.NAME],
    "NotBefore": formatdate(FAR, usegmt=True),
    "Description": "",
    "EventSource": "Platform",
    "DurationInSeconds": -1,
}
NOTICES = {
    "aws": {"action": {"action": "stop", "time": "2100-01-01T00:00:00Z"}},
    "gcp": {"preempted": "TRUE"},
    "azure": {"events": [EVENT]},
}
ACTIONS = {"aws": "stop", "gcp": "terminate", "azure": "preempt"}
SETTINGS = {
    "cloud": "aws",
    "address": "",
    "drain_folder": "/etc/gpufleet/drain.d",
    "drain_seconds": 100,
    "drain_on_rebalance": False,
    "poll_seconds": 2,
    "metrics_folder": "",
}


@pytest.fixture
def metadata(tmp_path):
    with emulator.MetadataEmulator(tmp_path / "metadata.json") as server:
        yield server


@pytest.fixture
def watch(tmp_path, metadata):
    """Return a function that makes a watcher of a cloud, with an empty drain folder."""
    (tmp_path / "drain.d").mkdir(mode=0o755)

    def make(cloud, **changes):
        values = {
            "cloud": cloud,
            "address": metadata.address,
            "drain_folder": str(tmp_path / "drain.d"),
            "drain_seconds": 20,
            "drain_on_rebalance": False,
            "poll_seconds": 0,
            "state_file": str(tmp_path / "state.json"),
            "metrics_file": str(tmp_path / "spot.prom"),
        }
        return spot_notice.Watcher(spot_notice.Settings(**values | changes))

    return make


@pytest.fixture
def add_hook(tmp_path):
    def add(name, text, mode=0o755):
        path = tmp_path / "drain.d" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(mode)

    return add


def read_state(tmp_path):
    return json.loads((tmp_path / "state.json").read_text())


@pytest.mark.parametrize("cloud", NOTICES)
def test_no_notice_means_no_drain(cloud, watch, add_hook, tmp_path):
    add_hook("10-drain", f"touch {tmp_path}/drained")
    watcher = watch(cloud)
    watcher.check(may_wait=False)
    assert watcher.state["status"] == "watching"
    assert not (tmp_path / "drained").exists()


@pytest.mark.parametrize("cloud", NOTICES)
def test_notice_runs_the_hooks_in_order_and_is_recorded(cloud, watch, add_hook, metadata, tmp_path):
    add_hook("20-second", f'echo "second $GPUFLEET_CLOUD $GPUFLEET_NOTICE $GPUFLEET_ACTION" >>{tmp_path}/log')
    add_hook("10-first", f'echo "first ${{GPUFLEET_DEADLINE:+has a deadline}}" >>{tmp_path}/log')
    watcher = watch(cloud)
    watcher.check(may_wait=True)
    metadata.announce(**NOTICES[cloud])
    watcher.check(may_wait=True)
    watcher.check(may_wait=False)  # the same notice does not run them again
    assert (
        tmp_path / "log"
    ).read_text() == f"first has a deadline\nsecond {cloud} preempt {ACTIONS[cloud]}\n"
    state = read_state(tmp_path)
    assert state["status"] == "drained"
    assert [hook["outcome"] for hook in state["hooks"]] == ["succeeded"] * 2
    assert 'gpufleet_spot_notice{kind="preempt"} 1\n' in (tmp_path / "spot.prom").read_text()
    assert "gpufleet_spot_drained 1\n" in (tmp_path / "spot.prom").read_text()


def test_azure_event_is_approved_only_after_the_drain(watch, add_hook, metadata, tmp_path):
    add_hook("10-look", f"cp {metadata.state_file} {tmp_path}/at-drain.json")
    metadata.announce(**NOTICES["azure"])
    watch("azure").check(may_wait=False)
    assert json.loads((tmp_path / "at-drain.json").read_text())["acknowledged"] == []
    assert metadata.state["acknowledged"] == [EVENT["EventId"]]
    assert metadata.state["events"][0]["EventStatus"] == "Started"


@pytest.mark.parametrize(
    "change", [{"Resources": ["other-1"]}, {"EventType": "Freeze"}], ids=["other machine", "other event"]
)
def test_azure_events_that_do_not_end_this_machine_are_left_alone(change, watch, metadata):
    metadata.announce(events=[{**EVENT, **change}])
    watcher = watch("azure")
    watcher.check(may_wait=False)
    assert (watcher.state["status"], metadata.state["acknowledged"]) == ("watching", [])


@pytest.mark.parametrize(("drains", "status"), [(False, "at_risk"), (True, "drained")])
def test_rebalance_recommendation_is_recorded_and_drains_only_on_request(drains, status, watch, metadata):
    metadata.announce(rebalance={"noticeTime": "2026-11-23T08:22:00Z"})
    watcher = watch("aws", drain_on_rebalance=drains)
    watcher.check(may_wait=False)
    assert (watcher.state["status"], watcher.state["notice"]["kind"]) == (status, "rebalance")


def test_interruption_notice_counts_more_than_a_later_recommendation(watch, metadata):
    metadata.announce(**NOTICES["aws"], rebalance={"noticeTime": "2026-11-23T08:22:00Z"})
    watcher = watch("aws")
    watcher.check(may_wait=False)
    assert (watcher.state["status"], watcher.state["notice"]["kind"]) == ("drained", "preempt")


def test_expired_aws_token_is_renewed(watch, metadata):
    watcher = watch("aws")
    watcher.check(may_wait=False)
    metadata.announce(token="another==", **NOTICES["aws"])
    watcher.check(may_wait=False)
    assert watcher.state["status"] == "drained"


def test_gcp_waits_for_a_change_of_the_value_that_it_knows(watch, metadata):
    source = watch("gcp").source
    assert source.poll(may_wait=True) == []  # without an etag there is nothing to wait for
    metadata.announce(preempted="TRUE")
    [notice] = source.poll(may_wait=True)
    assert notice.id == "preempted"


def test_hook_over_the_time_limit_is_stopped_with_its_children(watch, add_hook, metadata, tmp_path):
    add_hook("10-hangs", f"sleep 600 & echo $! >{tmp_path}/child; wait")
    add_hook("20-late", "true")
    metadata.announce(**NOTICES["aws"])
    watcher = watch("aws", drain_seconds=5)
    watcher.check(may_wait=False)
    assert [hook["outcome"] for hook in watcher.state["hooks"]] == [
        "stopped: the time was over",
        "not run: no time left",
    ]
    assert watcher.state["status"] == "drain_failed"
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    while child.exists() and child.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)  # it has its signal and ends; the test would hang if it had none


def test_notice_with_little_time_left_limits_the_hooks(watch):
    watcher = watch("aws", drain_seconds=100)
    soon = spot_metadata.Notice("preempt", "1", "terminate", time.time() + 10)
    assert watcher._drain_seconds(soon) <= 8
    assert watcher._drain_seconds(spot_metadata.Notice("preempt", "1", "terminate", 1.0)) == 0
    assert watcher._drain_seconds(spot_metadata.Notice("rebalance", "1", "rebalance", None)) == 100


def test_hooks_that_others_can_change_are_refused(watch, add_hook, metadata, tmp_path):
    add_hook("10-open", f"touch {tmp_path}/ran", mode=0o775)
    add_hook("20-plain", f"touch {tmp_path}/ran", mode=0o644)
    add_hook("30-old.bak", f"touch {tmp_path}/ran")
    (tmp_path / "drain.d/40-link").symlink_to("/bin/true")
    metadata.announce(**NOTICES["aws"])
    watcher = watch("aws")
    watcher.check(may_wait=False)
    outcomes = {hook["name"]: hook["outcome"] for hook in watcher.state["hooks"]}
    assert outcomes == {
        "10-open": f"refused: {tmp_path}/drain.d/10-open can be changed by others than root",
        "20-plain": "refused: not an executable file",
        "40-link": "refused: not an executable file",
    }
    assert watcher.state["status"] == "drain_failed"
    assert not (tmp_path / "ran").exists()


def test_restart_of_the_service_does_not_drain_twice(watch, add_hook, metadata, tmp_path):
    add_hook("10-count", f"echo run >>{tmp_path}/log")
    metadata.announce(**NOTICES["aws"])
    watch("aws").check(may_wait=False)
    watch("aws").check(may_wait=False)
    assert (tmp_path / "log").read_text() == "run\n"


def test_node_that_comes_back_after_a_stop_keeps_its_last_notice(watch, metadata, monkeypatch, tmp_path):
    metadata.announce(**NOTICES["aws"])
    watch("aws").check(may_wait=False)
    (tmp_path / "boot_id").write_text("another boot\n")
    monkeypatch.setattr(spot_notice, "BOOT_ID", str(tmp_path / "boot_id"))
    state = watch("aws").state
    assert (state["status"], state["notice"], state["handled"]) == ("watching", None, [])
    assert state["previous"]["notice"]["action"] == "stop"


def test_outage_is_logged_once_and_shown_as_a_metric(watch, metadata, capfd, tmp_path):
    watcher = watch("aws", address="http://127.0.0.1:9")
    for _ in range(3):
        watcher.check(may_wait=False)
    assert capfd.readouterr().err.count("does not answer") == 1
    assert "gpufleet_spot_metadata_up 0\n" in (tmp_path / "spot.prom").read_text()


def test_answer_that_is_not_the_cloud_s_is_an_outage_and_not_a_notice(watch, metadata):
    metadata.announce(preempted="<html>", action=[])
    for cloud in ("gcp", "aws"):
        watcher = watch(cloud)
        watcher.check(may_wait=False)
        assert watcher.state["status"] == "watching"
        assert watcher._outage


def test_shutdown_asks_once_more_and_drains(watch, add_hook, metadata, tmp_path):
    """On Google Cloud the shutdown and the notice come at the same time."""
    add_hook("10-drain", "true")
    package = tmp_path / "spot"
    package.mkdir()
    folder = ROOT / "modules/ansible_collections/gpufleet/fleet/plugins/module_utils"
    for name in ("spot_metadata.py", "spot_notice.py"):
        shutil.copy(folder / name, package)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**vars(watch("aws").settings), "poll_seconds": 3600}))
    process = subprocess.Popen([sys.executable, "-B", "-m", "spot.spot_notice", config], cwd=tmp_path)
    while not (tmp_path / "state.json").exists():
        assert process.poll() is None
    metadata.announce(**NOTICES["aws"])
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    assert read_state(tmp_path)["status"] == "drained"


@pytest.mark.parametrize("moment", ["state.json", "spot.prom"])
def test_shutdown_while_a_file_is_written_drains_too(  # noqa: PLR0917 - fixtures
    moment, watch, add_hook, metadata, monkeypatch, tmp_path
):
    """The first CI run that met this moment ended the service with a traceback, undrained."""
    add_hook("10-drain", "true")
    metadata.announce(**NOTICES["aws"])
    write = spot_notice.write_atomically

    def write_and_stop(path, text):
        if Path(path).name == moment:
            signal.raise_signal(signal.SIGTERM)
        write(path, text)

    monkeypatch.setattr(spot_notice, "write_atomically", write_and_stop)
    before = signal.getsignal(signal.SIGTERM)
    try:
        watch("aws", poll_seconds=3600).run()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert read_state(tmp_path)["status"] == "drained"


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("PUT", "/latest/api/token", {}, 400),
        ("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "21601"}, 400),
        ("GET", "/latest/meta-data/spot/instance-action", {}, 401),
        ("GET", "/computeMetadata/v1/instance/preempted", {}, 403),
        ("GET", spot_metadata.AZURE_EVENTS, {}, 400),
        ("GET", "/metadata/scheduledevents", {"Metadata": "true"}, 400),
        ("POST", spot_metadata.AZURE_EVENTS, {"Metadata": "true"}, 400),
    ],
)
def test_emulated_metadata_services_refuse_what_the_clouds_refuse(metadata, method, path, headers, status):
    body = b"{}" if method == "POST" else None
    request = urllib.request.Request(metadata.address + path, method=method, headers=headers, data=body)
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
    assert refusal.value.code == status


def test_unit_drains_before_engines_and_schedulers_stop():
    resources = spot_notice_resources(SETTINGS, program={"spot_notice.py": "x"})
    [unit] = [file["content"] for file in resources["files"] if file["path"].endswith(".service")]
    assert "After=network-online.target docker.service" in unit
    assert "KillMode=mixed\nTimeoutStopSec=115\n" in unit


def test_program_listens_on_nothing():
    folder = ROOT / "modules/ansible_collections/gpufleet/fleet/plugins/module_utils"
    text = "".join((folder / name).read_text() for name in ("spot_metadata.py", "spot_notice.py"))
    assert not any(word in text for word in ("bind(", "listen(", "http.server", "socketserver"))


def test_recorded_state_reaches_the_registry_without_internals():
    content = json.dumps({"status": "drained", "handled": ["x"], "boot_id": "y"}).encode()
    state = parse_spot_notice_state({"content": b64encode(content)})
    assert state["status"] == "drained"
    assert "handled" not in state
    assert parse_spot_notice_state({"failed": True}) == {}
    assert parse_spot_notice_state({"content": b64encode(b"[")}) == {"status": "unreadable"}


def test_settings_of_the_service_are_those_that_the_program_reads(tmp_path):
    resources = spot_notice_resources(SETTINGS, program={})
    [config] = [file["content"] for file in resources["files"] if file["path"].endswith(".json")]
    path = tmp_path / "config.json"
    path.write_text(config)
    assert spot_notice.read_settings(str(path)).address == "http://169.254.169.254"
