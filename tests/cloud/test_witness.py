"""Test rules and simulated clouds against each other: neither reads what the other was written from."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import cloud_corpus as corpus
import simulated_engine as engine
from gpufleet import fleet
from gpufleet.catalog.data_file import load_machines
from gpufleet.errors import InputError

ILLEGAL = corpus.load_cases("illegal")
REQUESTS = [case for case in ILLEGAL if "requests" in case]
MIN_REFUSED = 50


def send_requests(requests, folder):
    """Return what the simulated clouds refuse of these requests, sent one after the other."""
    clouds = engine.SimulatedEngine(folder)
    for number, request in enumerate(requests):
        inputs = {**corpus.BASE_REQUESTS[request["type"]], **request["inputs"]}
        clouds.new_resource(SimpleNamespace(typ=request["type"], name=f"request-{number}", inputs=inputs))
    return clouds.refusals


@pytest.mark.parametrize("case", REQUESTS, ids=corpus.case_id)
def test_simulated_cloud_refuses_an_illegal_pool_by_itself(case, tmp_path):
    assert send_requests(case["requests"], tmp_path) != []


def build_placement_request(pool):
    """Return the request for one machine of a pool, with no more than where it is to be."""
    region, zone = pool["region"], pool.get("zones", [None])[0]
    if pool["cloud"] == "aws":
        place = {"availabilityZone": zone} if zone else {}
        inputs = {"instanceType": pool["machine"], "region": region, **place}
        return {"type": "aws:ec2/instance:Instance", "inputs": inputs}
    if pool["cloud"] == "azure":
        inputs = {"location": region, "hardwareProfile": {"vmSize": pool["machine"]}}
        inputs |= {"zones": [zone]} if zone else {}
        return {"type": "azure-native:compute:VirtualMachine", "inputs": inputs}
    cards = [{"type": "nvidia-tesla-t4", "count": 1}] if "accelerators" in pool else []
    inputs = {"machineType": pool["machine"], "zone": zone, "guestAccelerators": cards}
    return {"type": "gcp:compute/instance:Instance", "inputs": inputs}


REPORTED = [
    {**corpus.REPORTED["base"][cloud], **case[cloud]}
    for case in corpus.REPORTED["refused"]
    for cloud in corpus.DEFAULTS
    if cloud in case and case["rule"] in ("machine-in-region", "machine-in-zone", "zone-in-region")
    if len(set(case[cloud].get("zones", []))) == len(case[cloud].get("zones", []))  # not a zone twice
]


@pytest.mark.parametrize("pool", REPORTED, ids=lambda pool: f"{pool['machine']}-{pool['region']}")
def test_simulated_cloud_has_no_machine_where_none_is_sold(pool, tmp_path):
    assert send_requests([build_placement_request(pool)], tmp_path) != []


@pytest.mark.parametrize("kind", corpus.BASE_REQUESTS)
def test_unchanged_request_is_accepted(kind, tmp_path):
    assert send_requests([{"type": kind, "inputs": {}}], tmp_path) == []


def test_most_illegal_pools_are_seen_by_the_simulated_clouds():
    assert len(REQUESTS) >= MIN_REFUSED
    # What a case has no request for, it says why: it is ours to refuse, or the simulated cloud cannot see it.
    unexplained = [case["id"] for case in ILLEGAL if not {"requests", "is_ours", "unseen"} & case.keys()]
    assert unexplained == []


def find_refusals(spec, folder, monkeypatch):
    """Return what the simulated clouds refuse of a spec that the rules accept; None if the rules refuse it."""
    try:
        declared = fleet.parse_fleet(spec, stack="test", root=folder)
    except InputError:
        return None
    clouds = engine.SimulatedEngine(folder)
    error = engine.evaluate_fleet(declared, clouds, monkeypatch)
    return clouds.refusals + ([error] if error else [])


@pytest.mark.parametrize("case", corpus.load_cases("legal"), ids=corpus.case_id)
def test_simulated_clouds_accept_the_legal_pools(case, tmp_path, monkeypatch, sdks):
    assert find_refusals(corpus.build_spec(case), tmp_path, monkeypatch) == []


MACHINES = {
    name: sorted(machine for (owner, machine) in load_machines() if owner == name) for name in corpus.DEFAULTS
}
ZONES = {
    "aws": [["us-east-1a"], [], ["us-east-1a", "us-east-1b"]],
    "gcp": [["us-central1-a"], ["us-central1-b"], ["us-central1-c"], [], ["us-central1-a", "us-central1-c"]],
    "azure": [[], ["1"], ["1", "2"]],
}
RESERVATIONS = {
    "aws": "cr-0123456789abcdef0",
    "gcp": "held",
    "azure": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/x",
}


def purchases(name):
    """Return a strategy of purchases, legal or not, of any kind."""
    spot = st.fixed_dictionaries(
        {"kind": st.just("spot")},
        optional={
            "on_eviction": st.sampled_from(["delete", "stop"]),
            "fallback": st.just("on_demand"),
            "max_usd_per_hour": st.just(3.5),
            "restore_minutes": st.just(60),
            "allocation": st.just("capacity-optimized"),
        },
    )
    held = {"kind": "reserved", "reservation": RESERVATIONS[name]}
    plain = st.sampled_from(
        [
            {"kind": "on_demand"},
            {"kind": "committed", "term": "1y"},
            {"kind": "reserved", "reservation": "create"},
            held,
            {"kind": "capacity_block", "reservation": "cr-0123456789abcdef0"},
            {"kind": "capacity_block", "offering": "cb-0123456789abcdef0", "buy": True},
            {"kind": "flex_start", "max_run_hours": 24},
            {"ladder": [held, {"kind": "on_demand"}]},
            {"ladder": [held, {"kind": "spot"}, {"kind": "on_demand"}]},
        ]
    )
    return st.one_of(plain, spot)


@st.composite
def pools(draw):
    """Draw a pool of up to four nodes."""
    name = draw(st.sampled_from(sorted(corpus.DEFAULTS)))
    machine = draw(st.sampled_from(MACHINES[name]))
    pool = {
        "cloud": name,
        "region": corpus.DEFAULTS[name]["region"],
        "machine": machine,
        "zones": draw(st.sampled_from(ZONES[name])),
        "count": draw(
            st.sampled_from([0, 1, 2, 4, {"min": 0, "max": 2}, {"min": 1, "desired": 2, "max": 4}])
        ),
        "purchase": draw(purchases(name)),
        "fabric": draw(st.sampled_from(["none", "auto"])),
        "template": draw(st.sampled_from(sorted(corpus.TEMPLATES))),
        "group": draw(st.booleans()),
    }
    if machine.startswith("n1-"):
        pool["accelerators"] = {"model": "T4", "count": draw(st.sampled_from([1, 2, 3, 4]))}
    return {"cloud": name, "pool": pool, "gcp": {"project": "my-project"}}


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=pools())
def test_simulated_clouds_accept_what_the_rules_accept(case, tmp_path_factory, monkeypatch, sdks):
    folder = tmp_path_factory.mktemp("clouds")
    refusals = find_refusals(corpus.build_spec(case), folder, monkeypatch)
    event("refused by the rules" if refusals is None else "accepted by the rules")
    assert refusals in ([], None)
