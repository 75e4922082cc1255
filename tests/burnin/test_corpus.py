"""Test the corpus of recorded outputs as a whole: size, origin, licence, hash, and no false fault among them.

What must be read from each file is tested by test_smi_reports, test_kernel_log, test_drives, test_gpu_judgement and
test_system_checks.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml

RECORDED = Path(__file__).parents[1] / "cases/burnin/recorded"
ENTRIES = [
    (index.parent, entry)
    for index in sorted(RECORDED.glob("*/index.yaml"))
    for entry in yaml.safe_load(index.read_text())
]
LICENCES = {"Apache-2.0", "MIT"}


def is_third_party(entry):
    return entry["origin"].startswith("https://github.com/")


@pytest.mark.parametrize(
    ("folder", "entry"), ENTRIES, ids=lambda value: getattr(value, "name", None) or value["file"]
)
def test_recording_has_origin_licence_hash_and_expectation(folder, entry):
    assert hashlib.sha256((folder / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    assert entry["licence"] in LICENCES
    assert entry["origin"]
    assert entry.get("outcome") or entry.get("outcomes")
    if is_third_party(entry):
        revision = entry["origin"].partition("/blob/")[2].partition("/")[0]
        assert len(revision) == 40  # one commit, not a branch


def test_corpus_has_at_least_60_outputs_of_third_parties():
    third_party = [entry for _, entry in ENTRIES if is_third_party(entry)]
    assert len(third_party) >= 60
    assert len({entry["sha256"] for entry in third_party}) == len(third_party)
    assert len({"/".join(entry["origin"].split("/")[3:5]) for entry in third_party}) >= 4


def test_no_third_party_output_is_a_false_fault():
    """A recording may fail only if its index says what is broken."""
    failing = {entry["file"]: entry.get("fault") for _, entry in ENTRIES if entry.get("outcome") == "fail"}
    third_party = {entry["file"] for _, entry in ENTRIES if is_third_party(entry)}
    assert {name for name in failing if name in third_party} == {
        "gpud-xid-119.log",
        "exporter-SAMSUNG-MZWLL3T2HAJQ-00005.json",
    }
    assert all(fault for name, fault in failing.items() if name in third_party)


@pytest.mark.parametrize("folder", sorted({folder for folder, _ in ENTRIES}), ids=lambda folder: folder.name)
def test_folder_has_no_unlisted_file(folder):
    listed = {entry["file"] for owner, entry in ENTRIES if owner == folder}
    extra = {path.name for path in folder.iterdir()} - listed
    assert {name for name in extra if not name.startswith("LICENSE")} <= {"README.md", "index.yaml"}
