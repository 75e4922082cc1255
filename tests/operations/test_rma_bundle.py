"""Test the bundle for a vendor: complete, reproducible, and without any of the canaries planted in its sources."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import zlib

import pytest
from click.testing import CliRunner

from canary.search import Search
from gpufleet.cli.repairs import repairs_command
from gpufleet.errors import InputError
from gpufleet.nodes import (
    NodeIdentity,
    NodeObservation,
    ObservedFault,
    ObservedPart,
    PartObservation,
    Registry,
)
from gpufleet.operations import rma_bundle

GPU = ObservedPart("gpu", "1650321001234", "GPU-b01b80eb-0f18-1df0", "NVIDIA H100 80GB HBM3", "0000:18:00.0")
CANARIES = {
    "address": "203.0.113.77",
    "address6": "2001:db8:77::77",
    "mac": "52:54:00:77:77:77",
    "node": "canarynode77",
    "hostname": "canarybox",
    "fqdn": "canary.cluster.internal",
    "user": "canaryuser",
    "actor": "canaryann",
    "token": "ghp_canary77canary77canary77canary77",
    "password": "canaryPassw0rd",
    "key": "canarykeyb3BlbnNzaC1rZXktdjEAAAAA",
    "machine_id": "canary0123456789abcdef",
    "word": "projectcanary",
}
LINE = "NVRM: Xid (PCI:0000:18:00): 79, pid=17, name=train, GPU has fallen off the bus."


def write_sources():
    """Return texts with every canary, as nodes and tools write them."""
    c = CANARIES
    key = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{c['key']}\n-----END OPENSSH PRIVATE KEY-----"
    return (
        f"Nov 22 18:29:55 {c['hostname']} kernel: {LINE}\nfrom {c['address']} ({c['address6']}) ether {c['mac']}\n"
        f"{c['fqdn']} /home/{c['user']}/train.py PASSWORD={c['password']} {c['token']}\n{key}\n"
        f"{c['hostname']} {c['user']} {c['node'].upper()} {c['word']}\n"
    )


@pytest.fixture
def registry(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    with Registry(url) as opened:
        place = NodeIdentity("SERVER0001", rack="r1", slot="1")
        facts = {"kind": "gpu_server", "address": CANARIES["address"]}
        opened.apply_observation(NodeObservation("rack:r1", CANARIES["node"], place, declared=facts))
        opened.advance_node(CANARIES["node"], "commissioning", "answered")
        host = {
            "serial": "SERVER0001",
            "hostname": CANARIES["hostname"],
            "machine_id": CANARIES["machine_id"],
        }
        xml = base64.b64encode(zlib.compress(write_sources().encode())).decode()
        records = [
            {"type": "start", "attempt": "a1", "host": host},
            {"type": "check", "name": "gpu_xid", "raw": {"groups": [{"line": write_sources(), "count": 1}]}},
            {
                "type": "check",
                "name": "gpu_nvidia",
                "raw": {"xml": {"zlib_base64": xml}},
            },
        ]
        check = {"name": "gpu_xid", "outcome": "fail", "reason": write_sources(), "measured": 1.0}
        report = {"verdict": "faulty", "node": CANARIES["node"], "attempt": "a1", "checks": [check]}
        fault = ObservedFault("xid_79", "gpu_xid", write_sources(), "gpu", GPU.position, 1.0, 0.0, "events")
        seen = PartObservation((GPU,), (fault,))
        opened.record_burn_in_result(CANARIES["node"], "a1", report, records, reason="faulty", seen=seen)
        other = NodeIdentity("SERVER0002", rack="r1", slot="2")
        opened.apply_observation(NodeObservation("rack:r1", "other", other, declared={"kind": "gpu_server"}))
        opened.advance_node("other", "commissioning", "answered")
        seen = PartObservation((ObservedPart("gpu", None, "GPU-ffffffff-1111", None, GPU.position),))
        opened.record_burn_in_result(
            "other", "a1", report | {"verdict": "healthy"}, [{"other": 1}], seen=seen
        )
        (gpu,) = [part for part in opened.list_parts() if part.serial == GPU.serial]
        opened.record_repair_action(gpu.id, "reboot", f"by {CANARIES['user']}", CANARIES["actor"])
        yield opened


@pytest.fixture
def bug_report(tmp_path):
    path = tmp_path / "nvidia-bug-report.log.gz"
    path.write_bytes(gzip.compress(write_sources().encode() + b"\xff\xfe binary"))
    return path


def unpack(path):
    """Return the archive's files by name, packed ones unpacked."""
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
    return {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in files.items()}


def write(registry, path, bug_report, **options):
    return rma_bundle.write_rma_bundle(
        registry, GPU.serial, path, bug_report=bug_report, words=(CANARIES["word"],), **options
    )


def test_no_canary_leaves(registry, bug_report, tmp_path):
    bundle = write(registry, tmp_path / "rma.tar.gz", bug_report)
    search = Search(CANARIES)
    for name, data in unpack(bundle.path).items():
        assert search.names(data) == [], name
        assert search.names(name.encode()) == []
    assert bundle.manifest["redacted"]["address"] > 0


def test_bundle_has_identity_evidence_records_timeline_and_bug_report(registry, bug_report, tmp_path):
    files = unpack(write(registry, tmp_path / "rma.tar.gz", bug_report).path)
    assert sorted(files) == [
        f"rma/{name}"
        for name in (
            "evidence/1.json", "manifest.json", "nvidia-bug-report.log.gz", "part.json", "records/1.jsonl",
            "timeline.txt",
        )
    ]  # fmt: skip
    part = json.loads(files["rma/part.json"])
    assert (part["part"]["serial"], part["part"]["uuid"], part["systems"][0]["serial"]) == (
        GPU.serial, GPU.uuid, "SERVER0001",
    )  # fmt: skip
    assert all(LINE in text.decode() for name, text in files.items() if "report" in name or "records" in name)
    assert "fault   xid_79" in files["rma/timeline.txt"].decode()
    assert "action  reboot" in files["rma/timeline.txt"].decode()


def test_manifest_has_the_hash_of_every_file(registry, bug_report, tmp_path):
    path = write(registry, tmp_path / "rma.tar.gz", bug_report).path
    with tarfile.open(path) as archive:
        packed = {m.name.removeprefix("rma/"): archive.extractfile(m).read() for m in archive.getmembers()}
    listed = {row["path"]: row["sha256"] for row in json.loads(packed.pop("manifest.json"))["files"]}
    assert listed == {name: hashlib.sha256(data).hexdigest() for name, data in packed.items()}


def test_bundle_is_reproducible_and_private(registry, bug_report, tmp_path):
    first, second = (write(registry, tmp_path / name, bug_report).path for name in ("1.tar.gz", "2.tar.gz"))
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x1f\x8bgarbage", "is not a gzip file"),
        (gzip.compress(b"\0" * (rma_bundle.UNPACKED_LIMIT + 1)), "is larger than 134,217,728 bytes unpacked"),
    ],
    ids=["damaged", "bomb"],
)
def test_bug_report_is_bounded(tmp_path, content, problem):
    path = tmp_path / "report.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        rma_bundle.read_bug_report(path)


def test_command_lists_what_it_packed(registry, tmp_path):
    arguments = ["bundle", CANARIES["node"], "--out", str(tmp_path / "rma.tar.gz")]
    result = CliRunner().invoke(repairs_command, arguments)
    assert "records/1.jsonl" in result.stdout
    assert "redacted: " in result.stdout
    assert io.BytesIO((tmp_path / "rma.tar.gz").read_bytes()).read(2) == b"\x1f\x8b"
