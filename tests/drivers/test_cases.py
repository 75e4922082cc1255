"""Test the driver plans of recorded machines: every file of tests/cases/drivers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml

from gpufleet import fleet
from gpufleet.drivers import HostFacts, RequestedSoftware, plan_drivers
from gpufleet.drivers.site_cards import parse_site_cards
from gpufleet.nodes.blueprint import build_blueprint_variables

CASES = Path(__file__).parents[1] / "cases" / "drivers"
KERNELS = {"debian": "6.1.0-50-amd64", "ubuntu": "6.8.0-55-generic"}
CLASSES = {"10de": "030200", "1002": "120000", "1a03": "030000"}
NVSWITCHES = ("10de:1af1", "10de:22a3")
FILES = sorted(path for path in CASES.glob("*.yaml") if path.stem != "offers")
KNOWN = {
    "about", "source", "cards", "subsystem", "classes", "os", "arch", "kernel", "newest_kernel", "secure_boot",
    "headers_installed", "packages", "loaded", "held", "offers", "container", "virtual", "raspberry", "wanted",
    "template", "firmware", "site_cards", "expected",
}  # fmt: skip


@cache
def read(path):
    return yaml.safe_load(path.read_text())


def join_offers(names):
    """Join the named sets; a host that did not say gives none."""
    if names == "none":
        return None
    sets = read(CASES / "offers.yaml")
    joined = {}
    for name in names:
        for package, versions in sets[name].items():
            joined[package] = [*joined.get(package, []), *versions]
    return joined


def list_pci_functions(case):
    """Return PCI functions for the cards and their counts."""
    ids = [pci for pci, count in case["cards"].items() for _ in range(count)]
    classes = case.get("classes", {})
    return [
        {
            "address": f"0000:{number:02x}:00.0",
            "vendor": pci[:4],
            "device": pci[5:],
            "class": classes.get(pci) or ("068000" if pci in NVSWITCHES else CLASSES[pci[:4]]),
            "subsystem": case.get("subsystem", ""),
        }
        for number, pci in enumerate(ids)
    ]


def facts_of(case):
    """Write a case's short form as the facts that a host would send."""
    system, version = case["os"].split()
    document = {
        "pci": list_pci_functions(case),
        "os": {"id": system, "version_id": version},
        "date": "2026-11-21",
    }
    document["kernel"] = case.get("kernel", KERNELS.get(system, "6.1.0-50-amd64"))
    document["arch"] = case.get("arch", "x86_64")
    document["candidates"] = join_offers(case.get("offers", "none"))
    for key in (
        "newest_kernel", "secure_boot", "headers_installed", "packages", "loaded", "held", "container",
        "virtual", "raspberry", "firmware",
    ):  # fmt: skip
        if key in case:
            document[key] = case[key]
    return HostFacts.from_json(document)


def site_cards(case):
    """Return the card that a case has in the site's own table."""
    entry = case.get("site_cards")
    return parse_site_cards(yaml.safe_dump({"cards": [entry]}), "gpu-cards.yaml") if entry else ()


def plan_case(case):
    """Return the plan of a case."""
    requested = RequestedSoftware.from_json(requested_software(case))
    return plan_drivers(facts_of(case), requested, site_cards(case))


def requested_software(case):
    """Return the variable that a case gives, or that its template gives in an inventory."""
    if "template" not in case:
        return case.get("wanted")
    blueprint = fleet.NodeTemplate.model_validate(case["template"]).resolve_steps({})
    return build_blueprint_variables(blueprint)["gpufleet_software"]


def short(package):
    return f"{package['name']}={package['version']}" if package["version"] else package["name"]


def shorten_pin(pin):
    return f"{pin['release']} {pin['priority']}" if pin else None


def shorten(plan):
    """Return a plan in the cases' short form."""
    document = plan.as_json()
    fabric, cuda, rocm = document["fabric_manager"], document["cuda"], document["rocm"]
    return document | {
        "packages": [short(package) for package in document["packages"]],
        "fabric_manager": [short(package) for package in fabric["packages"]] if fabric else None,
        "gpudirect": [short(package) for package in document["gpudirect"]],
        "cuda": [short(package) for package in cuda["packages"]] if cuda else None,
        "compat": [short(package) for package in cuda["compat"]] if cuda else None,
        "rocm": [short(package) for package in rocm["packages"]] if rocm else None,
        "gfx": rocm["gfx"] if rocm else None,
        "repositories": [repository["name"] for repository in document["repositories"]],
        "addresses": [repository["uri"] for repository in document["repositories"]],
        "suites": [repository["suite"] for repository in document["repositories"]],
        "pins": [shorten_pin(repository["pin"]) for repository in document["repositories"]],
        "fingerprints": sorted(
            {text for repository in document["repositories"] for text in repository["key"]["fingerprints"]}
        ),
        "cards": [f"{card['count']} {card['name']}" for card in document["cards"]],
        "reboot": document["reboot"]["needed"],
        "refusal": document["refusal"]["code"] if document["refusal"] else None,
        "reasons": [reason["code"] for reason in document["reasons"]],
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_recorded_machine_gets_its_expected_driver_plan(path):
    case = read(path)
    expected = dict(case["expected"])
    got = shorten(plan_case(case))
    named, absent = expected.pop("reasons", []), expected.pop("not_reasons", [])
    if "refusal" in expected:
        expected["action"] = "refuse"
    else:
        assert got["refusal"] is None, got["refusal"]
    assert {key: got[key] for key in expected} == expected
    assert set(named) <= set(got["reasons"]), got["reasons"]
    assert not set(absent) & set(got["reasons"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_plan_contains_only_what_the_host_offers(path):
    """Also with any one package withdrawn: then the plan does without it or is refused."""
    case = read(path)
    facts = facts_of(case)
    if facts.candidates is None:
        return
    requested = RequestedSoftware.from_json(requested_software(case))
    for withdrawn in (None, *facts.candidates):
        offered = {name: versions for name, versions in facts.candidates.items() if name != withdrawn}
        host = replace(facts, candidates=offered)
        plan = plan_drivers(host, requested, site_cards(case))
        available = set(offered) | set(facts.packages)
        assert set(plan.headers) <= available, withdrawn
        if not plan.repositories and plan.origin != "image":
            assert {package.name for package in plan.packages} <= available, withdrawn


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_remedy_leads_into_another_refusal_of_its_origin(path):
    case = read(path)
    plan = plan_case(case)
    text = " ".join(
        [reason.message for reason in plan.reasons] + [plan.refusal.remedy if plan.refusal else ""]
    )
    if "origin: vendor" not in text:
        return
    requested = RequestedSoftware.from_json(requested_software(case))
    second_plan = plan_drivers(facts_of(case), replace(requested, origin="vendor"), site_cards(case))
    assert second_plan.refusal is None or second_plan.refusal.code not in (
        "system.arch",
        "origin.none",
        "kernel.flavour",
    )


def test_cases_cover_all_systems_and_actions():
    cases = [read(path) for path in FILES]
    assert len(cases) >= 60
    systems = {case["os"].split()[0] for case in cases}
    assert {"debian", "ubuntu", "rocky", "almalinux", "rhel"} <= systems
    actions = {case["expected"].get("action") for case in cases}
    assert {"install", "upgrade", "downgrade", "keep", "none"} <= actions
    assert sum("refusal" in case["expected"] for case in cases) >= 20


def test_cases_have_known_keys_and_name_their_source():
    for path in FILES:
        case = read(path)
        assert set(case) <= KNOWN, (path.stem, set(case) - KNOWN)
        assert case["about"]
        assert case["source"]
