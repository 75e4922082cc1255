"""Test the driver tables: sources, dates, consistency, and every PCI accelerator of the catalogue."""

from __future__ import annotations

import re
import string
from dataclasses import replace
from pathlib import Path

import pytest

from gpufleet import catalog
from gpufleet.drivers import data_file
from gpufleet.rule import Rule
from tools import driver_lint as lint

DRIVERS = Path(data_file.__file__).parent

CARD = {
    "pci": "10de:2330", "subsystem": "", "name": "H100", "catalogue": "", "architecture": "Hopper",
    "market": "datacenter", "gfx": "", "fabric": "", "mig_driver": "", "first_branch": "535", "module": "",
    "sources": "pci-ids", "as_of": "2026-10-24",
}  # fmt: skip
# Catalogue entries that are not PCI devices, or of a vendor that is not in the PCI ID Repository.
NO_PCI = ("apple", "sbc", "npu", "tpu", "cpu")
NO_ID = {
    "Groq LPU", "Cerebras CS-2 (WSE-2)", "Cerebras CS-3 (WSE-3)", "Etched Sohu", "d-Matrix Corsair", "Ascend 910B",
    "Ascend 910C",
}  # fmt: skip


def test_shipped_data_has_no_problem():
    assert lint.find_driver_data_problems() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pci": "10DE:2330"}, "not a PCI id"),
        ({"pci": "10de:233"}, "not a PCI id"),
        ({"name": ""}, "no name"),
        ({"architecture": "Rubin"}, "unknown architecture"),
        ({"market": "gaming"}, "unknown market"),
        ({"fabric": "nvlink"}, "unknown fabric"),
        ({"first_branch": ""}, "first branch missing"),
        ({"first_branch": "600"}, "first branch 600"),
        ({"gfx": "gfx90a"}, "gfx gfx90a"),
        ({"architecture": "CDNA3"}, "the id is of vendor nvidia"),
    ],
)
def test_invalid_card_is_reported(change, message):
    assert any(message in line for line in lint.find_card_problems([CARD | change]))


def test_duplicate_card_is_reported():
    assert list(lint.find_card_problems([CARD, CARD])) == ["cards.csv: 10de:2330 : twice"]
    assert list(lint.find_card_problems([CARD, CARD | {"subsystem": "10de:1234"}])) == []


def test_rows_need_a_date_and_a_listed_source():
    assert list(lint.find_source_problems("cards.csv", [CARD])) == []
    assert list(lint.find_source_problems("x", [CARD | {"sources": ""}])) == [
        "x: 10de:2330: unknown source ''"
    ]
    assert list(lint.find_source_problems("x", [CARD | {"as_of": "lately"}])) == ["x: 10de:2330: no day"]


def test_invalid_rules_and_branches_are_reported():
    assert list(lint.find_rule_problems({"a.b": Rule("a.b", reason="", source="gossip")})) == [
        "rules.yaml: a.b: no message",
        "rules.yaml: a.b: unknown source 'gossip'",
    ]
    row = {
        "number": "700",
        "kind": "lts",
        "end_of_life": "",
        "proprietary": "no",
        "default_module": "proprietary",
    }
    assert len(list(lint.find_branch_problems([row]))) == 2


def test_every_pci_accelerator_of_the_catalogue_has_a_card_row():
    named = {name for card in data_file.load_gpu_cards().values() for name in card.catalogue}
    parts = catalog.load_accelerators()
    expected = {name for name, part in parts.items() if part.kind not in NO_PCI} - NO_ID
    assert expected - named == set()
    assert named - set(parts) == set()


def test_card_architectures_match_the_catalogue():
    """What a card is called by PCI is of the generation that the catalogue says."""
    parts = catalog.load_accelerators()
    for card in data_file.load_gpu_cards().values():
        for name in card.catalogue:
            architecture = parts[name].architecture
            if architecture.split()[0] in data_file.load_gpu_architectures():
                generation = (
                    "Blackwell Ultra"
                    if architecture.startswith("Blackwell Ultra")
                    else architecture.split()[0]
                )
                assert card.architecture.startswith(generation), name  # GCN5.1 is the catalogue's GCN5
            if card.gfx and "gfx" in architecture:
                assert card.gfx in architecture, name


def test_every_rule_is_used_and_every_refusal_has_a_remedy():
    text = "".join(path.read_text() for path in DRIVERS.glob("*.py"))
    refused_codes = set(re.findall(r'build_refusal_error\(\s*"([a-z_.]+)"', text))
    assert len(refused_codes) > 10
    for code, rule in data_file.load_plan_rules().items():
        assert f'"{code}"' in text, code
        assert bool(rule.remedy) or code not in refused_codes, code
        assert _placeholders(rule.remedy) <= {"remedy", *_placeholders(rule.reason), *_extra(code)}, code


def _placeholders(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def _extra(code):
    """Return what only a remedy speaks of."""
    return {
        "system.unknown": {"known"},
        "driver.unmanaged": {"branch"},
        "branch.unknown": {"known"},
        "branch.no_common": {"old", "last", "new", "first"},
        "origin.none": {"other"},
        "cuda.unknown": {"known"},
        "cuda.packages": {"known"},
        "cuda.not_offered": {"known"},
        "system.arch": {"known"},
        "amd.system": {"known"},
        "amd.kernel_old": {"newer"},
        "amd.firmware_old": {"newer"},
        "fabric.no_match": {"drivers", "managers"},
        "amd.kernel_breaks": {"breaks"},
        "amd.driver_system": {"known"},
        "rocm.card_on_system": {"systems"},
        "rocm.unknown": {"known"},
        "rocm.system": {"known", "others"},
    }.get(code, set())


def test_minimum_drivers_match_the_cuda_major_versions():
    for release in data_file.load_cuda_releases().values():
        least = {"11": 450, "12": 525, "13": 580}[release.version.split(".")[0]]
        assert release.min_driver == least
        assert int(release.toolkit_driver.split(".")[0]) >= least


def test_last_branches_of_old_architectures_are_recorded():
    last_branches = {
        row.name: row.last_branch for row in data_file.load_gpu_architectures().values() if row.last_branch
    }
    assert last_branches == {"Maxwell": 580, "Pascal": 580, "Volta": 580}


def test_every_shipped_data_file_is_checked(monkeypatch):
    """A table of its own for each file, with one mistake that only that file's check finds."""
    invalid_tables = {
        "cards.csv": [CARD | {"market": "gaming"}],
        "branches.csv": [{"number": "700", "kind": "odd", "end_of_life": "", "proprietary": "yes",
                          "default_module": "open", "sources": "pci-ids", "as_of": "2026-10-24"}],
        "rocm.csv": [{"release": "9.9", "stream": "core", "drivers": "9.9", "sources": "pci-ids",
                      "as_of": "2026-10-24"}],
        "rocm_support.csv": [{"release": "9.9", "system": "odd-1", "gfx": "gfx0", "cards": "", "sources": "pci-ids",
                              "as_of": "2026-10-24"}],
        "sources.csv": [{"id": "gossip", "as_of": "lately"}],
    }  # fmt: skip
    monkeypatch.setattr(lint, "load_csv_rows", lambda name: invalid_tables.get(name, []))
    monkeypatch.setattr(lint, "load_plan_rules", lambda: {"a.b": Rule("a.b", reason="", source="pci-ids")})
    monkeypatch.setattr(
        lint, "load_system_package_tables", lambda: {"odd-1": {"as_of": "2026-10-24", "sources": "gossip"}}
    )
    assert lint.find_driver_data_problems() == [
        "cards.csv: 10de:2330 : unknown market",
        "branches.csv: 700: unknown kind 'odd'",
        "rocm.csv: 9.9: unknown driver '9.9'",
        "rocm_support.csv: 9.9 odd-1: no card has gfx0",
        "rules.yaml: a.b: no message",
        "systems.yaml: odd-1: unknown source 'gossip'",
        "sources.csv: gossip: no day",
    ]


RELEASE = {"release": "6.3", "stream": "legacy", "drivers": "30.30.3 6.4.1"}


@pytest.mark.parametrize(
    ("change", "cells", "lines"),
    [
        ({}, ["6.3"], []),
        ({"drivers": "", "stream": "distribution"}, ["6.3"], []),
        ({"drivers": "30.30.3 0.1"}, ["6.3"], ["rocm.csv: 6.3: unknown driver '0.1'"]),
        ({"drivers": ""}, ["6.3"], ["rocm.csv: 6.3: unknown driver ''"]),
        ({}, [], ["rocm.csv: 6.3: no cell in rocm_support.csv"]),
        ({}, ["6.3", "9.9"], ["rocm_support.csv: 9.9: not in rocm.csv"]),
    ],
)
def test_invalid_rocm_release_is_reported(change, cells, lines):
    cell_rows = [{"release": release} for release in cells]
    assert list(lint.find_rocm_release_problems([RELEASE | change], cell_rows)) == lines


CELL = {"release": "6.3", "system": "debian-12", "gfx": "gfx90a", "cards": ""}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({}, None),
        ({"cards": "1002:740f"}, None),
        ({"gfx": "gfx90a gfx0"}, "rocm_support.csv: 6.3 debian-12: no card has gfx0"),
        ({"cards": "1002:74a1"}, "rocm_support.csv: 6.3 debian-12: 1002:74a1 has none of the processors"),
        ({"cards": "1002:0000"}, "rocm_support.csv: 6.3 debian-12: 1002:0000 has none of the processors"),
        ({"system": "plan9"}, "rocm_support.csv: 6.3 plan9: unknown system"),
    ],
)
def test_invalid_cell_of_the_rocm_grid_is_reported(change, line):
    cards = [{"pci": "1002:740f", "gfx": "gfx90a"}, {"pci": "1002:74a1", "gfx": "gfx942"}]
    assert list(lint.find_rocm_support_problems([CELL | change], cards)) == ([line] if line else [])


def test_rocm_drivers_have_the_systems_of_their_releases():
    """A release on a system for which AMD publishes no driver could only be refused."""
    drivers = data_file.load_amd_drivers()
    for release in data_file.load_rocm_releases().values():
        if release.drivers:
            assert set(release.systems) <= set(drivers[release.drivers[0]].systems), release.release


KEY = data_file.SigningKey(
    "k", "https://vendor.example/k.asc", ("A" * 40,), ("pci-ids", "ours"), "2026-11-22"
)
SYSTEM = {
    "nvidia": {"vendor": {"repositories": [{"name": "r", "uri": "https://vendor.example/", "key": "k"}]}}
}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({}, None),
        ({"fingerprints": (), "sources": ("ours",)}, None),
        ({"sources": ("ours", "ours")}, "keys.csv: k: fewer than 2 sources confirm its fingerprint"),
        ({"fingerprints": ("A" * 39,)}, "keys.csv: k: a fingerprint is not 40 hexadecimal digits"),
        ({"fingerprints": ("a" * 40,)}, "keys.csv: k: a fingerprint is not 40 hexadecimal digits"),
        ({"url": "http://vendor.example/k.asc"}, "keys.csv: k: not fetched over HTTPS"),
        ({"name": "other"}, "systems.yaml: odd-1 r: unknown key 'k'"),
    ],
)
def test_invalid_signing_key_is_reported(change, line):
    problems = list(lint.find_key_problems([replace(KEY, **change)], {"odd-1": SYSTEM}))
    assert problems == ([line] if line else [])


def test_repositories_are_checked_for_https_in_every_stream():
    plain = {"name": "r", "uri": "http://vendor.example/", "key": "k"}
    for entry in (
        {"driver": plain},
        {"rocm": {"legacy": plain}},
        {"rocm": {"legacy": {"packages": [], "graphics": plain}}},
    ):
        problems = list(lint.find_key_problems([KEY], {"odd-1": {"amd": entry}}))
        assert problems == ["systems.yaml: odd-1 r: not over HTTPS"]


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({}, []),
        ({"kind": "new_feature", "end_of_life": ""}, []),
        ({"kind": "odd"}, ["unknown kind 'odd'"]),
        ({"kind": "lts", "end_of_life": ""}, ["no month of end of life"]),
        ({"kind": "production", "end_of_life": "2026"}, ["no month of end of life"]),
        ({"kind": "ended", "end_of_life": "2026-09-01"}, ["no month of end of life"]),
        ({"proprietary": "no"}, ["its default module does not exist"]),
        ({"proprietary": "no", "default_module": "open"}, []),
    ],
)
def test_invalid_branch_is_reported(change, lines):
    row = {"number": "535", "kind": "lts", "end_of_life": "2026-06", "proprietary": "yes",
           "default_module": "proprietary"}  # fmt: skip
    assert list(lint.find_branch_problems([row | change])) == [f"branches.csv: 535: {line}" for line in lines]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"pci": "1002:74a1", "architecture": "CDNA3", "gfx": "gfx942"}, None),
        ({"pci": "1002:74a1", "architecture": "CDNA3", "gfx": ""}, "gfx missing"),
        ({"pci": "1002:74a1", "architecture": "CDNA3", "gfx": "", "market": "integrated"}, None),
        ({"first_branch": "", "market": "switch"}, None),
        ({"first_branch": "535"}, None),
        ({"pci": "8086:0bd5"}, "Hopper is of vendor nvidia, the id is of vendor other"),
    ],
)
def test_columns_of_a_card_match_its_vendor(change, line):
    row = CARD | change
    assert list(lint.find_card_problems([row])) == ([f"cards.csv: {row['pci']}: {line}"] if line else [])


@pytest.mark.parametrize("system", ["rhel-9", "rhel-10"])
def test_amd_s_dnf_repositories_have_the_documented_priority(system):
    amd = data_file.load_system_package_tables()[system]["amd"]
    rocm = amd["rocm"]
    entries = [amd["driver"], rocm["multi-arch"], rocm["legacy"], rocm["legacy"]["graphics"], rocm["core"]]
    assert [entry.get("priority") for entry in entries] == [50, 50, 50, 50, None]
