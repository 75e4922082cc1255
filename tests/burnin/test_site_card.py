"""Test that a site's own cards count in the readings of burn-in, and that a record cannot name cards itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gpufleet.burnin.part import observe_parts
from gpufleet.burnin.readings import extract_check_metrics
from gpufleet.burnin.site_card import SITE_CARDS, SiteCards
from gpufleet.burnin.verdict import judge_attempt
from gpufleet.drivers.site_cards import parse_site_cards
from gpufleet.errors import ProjectFileError
from gpufleet.operations.configure import configure_hosts
from gpufleet.operations.site_thresholds import judge_at_site

H100 = (Path(__file__).parents[1] / "cases/burnin/recorded/smi/h100-idle-v13.xml").read_text()
SOURCE = {"source": "the maker's letter of 2026-11-20", "date": "2026-11-20"}
EMBEDDED = {"pci": "10de:2fff", "name": "GB20", "architecture": "Blackwell", "market": "embedded",
            "first_branch": 595, **SOURCE}  # fmt: skip
INSTINCT = {"pci": "1002:7fff", "name": "Instinct MI500X", "architecture": "CDNA4", "market": "datacenter",
            "gfx": "gfx950", **SOURCE}  # fmt: skip
INTEGRATED = {"pci": "10de:2ffe", "name": "GB20's display", "architecture": "Blackwell", "market": "integrated",
              "first_branch": 595, **SOURCE}  # fmt: skip
AMD_DEVICE = {"slot": "0000:05:00.0", "driver": "amdgpu", "device": "0x7fff", "unique_id": "a1b2c3d4e5f60718"}


def write_cards(*entries):
    return yaml.safe_dump({"cards": list(entries)})


def build_cards(*entries):
    return SiteCards(parse_site_cards(write_cards(*entries), "gpu-cards.yaml"))


def build_records(name, raw):
    check = {"type": "check", "name": name, "status": "ran", "raw": raw}
    return [{"type": "start", "attempt": "a"}, check, {"type": "end"}]


def judge_one(name, raw, cards=None):
    report = judge_attempt(build_records(name, raw), "gpu_server", "quick", cards=cards or SiteCards())
    return next(check for check in report.checks if check.name == name)


def build_nvidia_report(attribute=""):
    xml = re.sub("<pci_device_id>[^<]*<", "<pci_device_id>2FFF10DE<", H100)
    xml = re.sub("<current_ecc>[^<]*<", "<current_ecc>N/A<", xml).replace("<gpu id", f"<gpu {attribute} id")
    return {"xml": {"text": xml}}


def test_embedded_card_of_a_site_has_unified_memory():
    assert judge_one("gpu_nvidia", build_nvidia_report()).outcome == "not_run"
    assert judge_one("gpu_nvidia", build_nvidia_report(), build_cards(EMBEDDED)).outcome == "pass"


def test_record_cannot_name_a_card():
    assert judge_one("gpu_nvidia", build_nvidia_report('market="embedded"')).outcome == "not_run"
    forged = build_nvidia_report() | {SITE_CARDS: [EMBEDDED]}
    assert judge_one("gpu_nvidia", forged).outcome == "not_run"
    assert extract_check_metrics("gpu_nvidia", forged).missing_reasons


def test_server_card_of_amd_that_only_the_site_knows_must_show_error_counters():
    raw = {"devices": [AMD_DEVICE], "expect_amd_gpus": 1}
    cards = build_cards(INSTINCT)
    assert "ras_uncorrected" in extract_check_metrics("gpu_amd", raw).not_applicable
    assert "ras_uncorrected" in extract_check_metrics("gpu_amd", raw | {SITE_CARDS: cards}).missing_reasons
    records = build_records("gpu_amd", raw)
    report = judge_attempt(records, "gpu_server", "quick", cards=cards)
    (part,) = observe_parts(records, "gpu_server", report, cards=cards).parts
    assert part.model == "Instinct MI500X"


def test_integrated_gpu_of_a_site_is_not_one_of_the_declared():
    device = {"slot": "0000:01:00.0", "vendor": "0x10de", "device": "0x2ffe", "class": "0x030000"}
    raw = {"devices": [device], "drives": [], "expect_gpus": 1}
    assert extract_check_metrics("hardware", raw).metrics["gpus_missing"] == 0
    seen = extract_check_metrics("hardware", raw | {SITE_CARDS: build_cards(INTEGRATED)})
    assert seen.metrics["gpus_missing"] == 1


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "Pulumi.yaml").write_text("name: gpufleet\nruntime: python\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_file_next_to_the_project_is_used_and_a_wrong_one_stops_the_judgement(project):
    records = build_records("gpu_nvidia", build_nvidia_report())

    def find_outcome():
        report = judge_at_site(records, "gpu_server", "quick")
        return next(check.outcome for check in report.checks if check.name == "gpu_nvidia")

    assert find_outcome() == "not_run"
    (project / "gpu-cards.yaml").write_text(write_cards(EMBEDDED))
    assert find_outcome() == "pass"
    (project / "gpu-cards.yaml").write_text(write_cards({**EMBEDDED, "market": "cheap"}))
    with pytest.raises(ProjectFileError, match=r"gpu-cards\.yaml"):
        find_outcome()


@pytest.mark.parametrize("name", ["gpu-cards.yaml", "burn-in-rules.yaml", "burn-in-kernel-log.yaml"])
def test_wrong_file_stops_configure_before_anything_is_planned(project, name):
    (project / name).write_text("cards: 3\nrules: 3\n")
    with pytest.raises(ProjectFileError, match=re.escape(name)):
        configure_hosts(project, None, None)
