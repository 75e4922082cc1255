"""Test a run of the network mesh step by step, as the role runs it: rounds of roles, sessions as text, the end."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from gpufleet.burnin import mesh_run

NAMES = tuple(f"node{number:02}" for number in range(1, 31))
RACKS = {name: f"rack{at // 6}" for at, name in enumerate(NAMES)}


def run_session(one, two, *, slow=(), dead=()):
    """Return what the agent of the driving node prints."""
    if {one, two} & set(dead):
        return {"stdout": json.dumps({"error": "timed out", "failed_step": "connect"})}
    rate = 8300.0 if {one, two} & set(slow) else 9400.0 + (len(one) + int(one[4:]) * int(two[4:])) % 3
    facts = {"sent_mbit": rate, "received_mbit": rate, "datagrams_sent": 400, "datagrams_received": 400}
    return {"stdout": json.dumps({**facts, "local_mtu": 1500, "partner_mtu": 1500, "path_mtu": 1500})}


def run_plan(plan, lost=(), **faults):
    """Run a plan to its end; return the result and the tests that were launched. ``lost`` hosts give no results."""
    launched, measured = [], []
    while (step := mesh_run.plan_step(plan, launched, measured)).rounds:
        launched = step.launched
        for roles in step.rounds:
            partners = Counter(role["partner"] for role in roles.values())
            assert max(partners.values()) == 1
            for node, role in roles.items():
                assert roles[role["partner"]]["partner"] == node
                if role["drives"] and node not in lost:
                    ends = {"node": node, "partner": role["partner"], "test": role["test"]}
                    measured.append({**ends, **run_session(node, role["partner"], **faults)})
    return mesh_run.judge_run(plan, launched, measured), launched, measured


@pytest.mark.parametrize("mode", ["pairs", "groups"])
def test_slow_and_dead_node_are_named_in_both_modes(mode):
    plan = mesh_run.MeshPlan(NAMES, RACKS, mode)
    result, _, measured = run_plan(plan, slow=["node09"], dead=["node20"])
    outcomes = {name: node["outcome"] for name, node in result["nodes"].items() if node["outcome"] != "pass"}
    assert outcomes == {"node09": "fail", "node20": "not_run" if mode == "pairs" else "fail"}
    assert (len(measured) < 435 / 4) == (mode == "groups")
    if mode == "groups":
        assert result["lines"][0].endswith("435 pairs in all")
        assert [line.split(":")[0] for line in result["lines"][1:3]] == ["node node09", "node node20"]


def test_healthy_run_of_pairs_measures_each_pair_once():
    result, launched, measured = run_plan(mesh_run.MeshPlan(NAMES, {}, "pairs"))
    assert {node["outcome"] for node in result["nodes"].values()} == {"pass"}
    assert (len(measured), [test["name"] for test in launched]) == (435, [mesh_run.PAIRS])


def test_burst_in_one_session_is_measured_again_and_not_reported():
    plan, seen = mesh_run.MeshPlan(NAMES[:8], {}, "pairs"), []

    def answer(node, partner):
        is_first = {node, partner} == {"node02", "node05"} and not seen
        seen.extend([1] if is_first else [])
        return run_session(node, partner, slow=["node02"] if is_first else [])

    launched, measured = [], []
    while (step := mesh_run.plan_step(plan, launched, measured)).rounds:
        launched = step.launched
        for roles in step.rounds:
            for node, role in roles.items():
                if role["drives"]:
                    ends = {"node": node, "partner": role["partner"], "test": role["test"]}
                    measured.append({**ends, **answer(node, role["partner"])})
    assert [test["name"] for test in launched] == [mesh_run.PAIRS, mesh_run.REPEAT]
    assert launched[1]["pairs"] == [["node02", "node05"]] or launched[1]["pairs"] == [["node05", "node02"]]
    result = mesh_run.judge_run(plan, launched, measured)
    assert {node["outcome"] for node in result["nodes"].values()} == {"pass"}


def test_host_that_answers_no_more_is_an_error_of_its_pairs():
    plan = mesh_run.MeshPlan(NAMES, RACKS, "groups")
    result, _, _ = run_plan(plan, lost=["node11"], dead=["node11"])
    assert result["nodes"]["node11"]["outcome"] == "fail"
    others = {node["outcome"] for name, node in result["nodes"].items() if name != "node11"}
    assert others == {"pass"}


def test_hostile_results_are_errors_and_end_the_run():
    plan, launched = mesh_run.MeshPlan(NAMES[:9], {}, "groups"), []
    hostile = [{"test": 5, "node": None, "partner": [], "stdout": "\x1b[2J", "stderr": {"a": 1}}]
    for _ in range(40):
        step = mesh_run.plan_step(plan, launched, hostile)
        if not step.rounds:
            break
        launched = step.launched
    else:
        pytest.fail("the run does not end")
    assert {node["outcome"] for node in mesh_run.judge_run(plan, launched, hostile)["nodes"].values()} == {
        "not_run"
    }


@pytest.mark.parametrize(
    ("mode", "hosts", "expected"),
    [("auto", 24, "pairs"), ("auto", 25, "groups"), ("pairs", 500, "pairs"), ("groups", 4, "groups")],
)
def test_mode_follows_the_number_of_hosts(mode, hosts, expected):
    assert mesh_run.choose_mode(mode, hosts, 24) == expected


def test_interrupted_run_goes_on_with_what_was_measured():
    plan = mesh_run.MeshPlan(NAMES, RACKS, "groups")
    expected, _, sessions = run_plan(plan, slow=["node09"])
    step = mesh_run.plan_step(plan, [], [])
    first = [entry for entry in sessions if entry["test"] in {test["name"] for test in step.launched}]
    text = mesh_run.format_run(
        plan, step.launched, first[:-1]
    )  # cut before the last session of the first step
    launched, measured = mesh_run.read_run(text, "state", plan)
    assert len(launched) == len(step.launched) - 1
    resumed = mesh_run.plan_step(plan, launched, measured)
    assert {role["test"] for roles in resumed.rounds for role in roles.values()} == {first[-1]["test"]}
    assert mesh_run.plan_step(plan, resumed.launched, sessions).rounds
    assert expected["nodes"]["node09"]["outcome"] == "fail"


def test_state_of_other_hosts_is_not_used():
    plan = mesh_run.MeshPlan(NAMES, RACKS, "groups")
    text = mesh_run.format_run(plan, [{"name": "1", "pairs": []}], [])
    assert mesh_run.read_run(text, "state", mesh_run.MeshPlan(NAMES[:9], RACKS, "groups")) == ([], [])
    assert mesh_run.read_run('{"names": 1, "launched": {}}', "state", plan) == ([], [])


def test_half_a_slow_cluster_passes_with_a_line_that_says_so():
    plan = mesh_run.MeshPlan(NAMES[:12], {}, "pairs")
    result, _, _ = run_plan(plan, slow=NAMES[:6])
    assert {node["outcome"] for node in result["nodes"].values()} == {"pass"}
    assert "30 of 132 rates inside groups are at least 10% above the middle" in result["lines"][-1]
    assert "set a bound for the rate" in result["lines"][-1]
    healthy, _, _ = run_plan(plan)
    assert healthy["lines"] == ["66 sessions of 12 nodes, all pairs"]


def test_thin_uplink_of_a_rack_is_a_line_of_the_run():
    names, plan = NAMES[:12], mesh_run.MeshPlan(NAMES[:12], RACKS, "pairs")
    launched = [
        {"name": mesh_run.PAIRS, "pairs": [[one, two] for one in names for two in names if one < two]}
    ]
    measured = [
        {
            "node": one,
            "partner": two,
            "test": mesh_run.PAIRS,
            **run_session(one, two, slow=[one] if RACKS[one] != RACKS[two] else []),
        }
        for one, two in launched[0]["pairs"]
    ]
    result = mesh_run.judge_run(plan, launched, measured)
    assert "fail" not in {node["outcome"] for node in result["nodes"].values()}
