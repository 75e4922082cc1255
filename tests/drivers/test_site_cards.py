"""Test a site's own table of cards: what it adds, what it replaces, and one clear line for every mistake."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.drivers import HostFacts, RequestedSoftware, detection, plan_drivers
from gpufleet.drivers.site_cards import parse_site_cards
from gpufleet.errors import InputError, ProjectFileError
from gpufleet.operations.site_file import load_site_cards

FILE = "gpu-cards.yaml"
ENTRY = {
    "pci": "1002:7fff", "name": "Radeon of tomorrow", "architecture": "RDNA4", "market": "consumer", "gfx": "gfx1201",
    "source": "the maker's letter of 2026-11-20", "date": "2026-11-20",
}  # fmt: skip
NVIDIA = {key: value for key, value in ENTRY.items() if key != "gfx"} | {
    "pci": "10de:2fff",
    "architecture": "Blackwell",
    "first_branch": 595,
}


def write(*entries):
    return yaml.safe_dump({"cards": list(entries)})


def facts_of(pci):
    return HostFacts.from_json(
        {
            "pci": [{"vendor": pci[:4], "device": pci[5:], "class": "030000"}],
            "os": {"id": "debian", "version_id": "13"},
            "kernel": "6.12.107+deb13-amd64",
            "arch": "x86_64",
        }
    )


@pytest.mark.parametrize("entry", [ENTRY, NVIDIA], ids=["amd", "nvidia"])
def test_own_card_gets_a_plan_and_without_it_the_refusal_names_the_file(entry):
    facts = facts_of(entry["pci"])
    refused = plan_drivers(facts, RequestedSoftware())
    assert refused.refusal.code == "cards.unknown"
    assert FILE in refused.refusal.remedy
    assert "modules/" not in refused.refusal.remedy
    plan = plan_drivers(facts, RequestedSoftware(), parse_site_cards(write(entry), FILE))
    assert plan.action == "install"
    assert [card.name for card in plan.cards] == [entry["name"]]


def test_own_card_replaces_the_shipped_one():
    facts = facts_of("1002:7550")
    own = parse_site_cards(write(ENTRY | {"pci": "1002:7550", "name": "Ours"}), FILE)
    assert [card.name for card in detection.detect_gpu_cards(facts, own).amd] == ["Ours"]
    assert [card.name for card in detection.detect_gpu_cards(facts).amd] == [
        "Radeon RX 9070/9070 XT/9070 GRE"
    ]


BAD = [
    ("", "must be a mapping with the key cards"),
    ("cards: 3", "cards: Input should be a valid list, got 3"),
    ("a: [", f"{FILE}:2: is not valid YAML"),
    ("cards: [{}]", "cards.0.pci: is missing"),
    (write({**ENTRY, "colour": "red"}), "cards.0.colour: unknown key"),
    (write({**ENTRY, "pci": "1002:7FFF"}), "cards.0.pci: String should match pattern"),
    (write({**ENTRY, "market": "gaming"}), "cards.0.market: Input should be 'datacenter'"),
    (write({**ENTRY, "source": "a note"}), "cards.0.source: String should have at least 10 characters"),
    (write({**ENTRY, "date": "soon"}), "cards.0.date: String should match pattern"),
    (write({**ENTRY, "architecture": "RDNA9"}), "cards.0.architecture: 'RDNA9' is not an architecture of a card"),
    (write({**ENTRY, "architecture": "Hopper"}), "use one of GCN4, GCN5, GCN5.1, CDNA1"),
    (write({**ENTRY, "gfx": ""}), "cards.0.gfx: is missing: a card of AMD needs its processor"),
    (write({**ENTRY, "first_branch": 580}), "cards.0.first_branch: must be left out"),
    (write({**NVIDIA, "gfx": "gfx1201"}), "cards.0.gfx: must be empty"),
    (write({**NVIDIA, "first_branch": None}), "cards.0.first_branch: is missing: a card of NVIDIA needs one"),
    (write({**NVIDIA, "first_branch": 581}), "cards.0.first_branch: 581 is not a known branch; use one of 535"),
    (write(ENTRY, ENTRY), "cards.1: 1002:7fff  is there twice"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD)
def test_wrong_file_is_one_line(text, message):
    with pytest.raises(InputError) as caught:
        parse_site_cards(text, FILE)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(FILE)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60), st.sampled_from(sorted(ENTRY)))
def test_any_text_in_a_field_is_accepted_or_one_line(text, key):
    try:
        parse_site_cards(write({**ENTRY, key: text}), FILE)
    except InputError as error:
        lines = str(error).splitlines()
    else:
        lines = ["accepted"]
    assert len(lines) == 1


def test_file_of_the_project_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_site_cards() == ()  # outside a project
    (tmp_path / "Pulumi.yaml").touch()
    assert load_site_cards() == ()
    (tmp_path / FILE).write_text(write(ENTRY))
    assert [card.pci for card in load_site_cards()] == [ENTRY["pci"]]
    (tmp_path / FILE).write_text("cards: 3")
    with pytest.raises(ProjectFileError, match=f"{FILE}: cards: Input should be a valid list"):
        load_site_cards()
