"""One run of the network mesh, step by step: what to launch next, and what all results show.

The controller calls this after each step with everything that was launched and measured so far. A session that was
launched and has no result is an error of its pair.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpufleet.boundary import OWN_STATE, decode_json_object
from gpufleet.burnin.isolation import GroupTest, IsolationReport, advance_isolation, color_pairs
from gpufleet.burnin.isolation_report import format_isolation, judge_isolated_nodes
from gpufleet.burnin.isolation_session import Purpose, describe_spreads
from gpufleet.burnin.mesh import (
    PairMeasurement,
    assign_roles,
    build_rounds,
    judge_mesh,
    list_suspect_pairs,
    read_pair_session,
    summarize_node,
)
from gpufleet.burnin.mesh_uplink import explain_uplinks

PAIRS, REPEAT = "all pairs", "suspect pairs again"
# More suspect pairs than so many a node are no noise: measuring them again takes long and clears nothing.
MOST_REPEATS_PER_NODE = 2

Launch = Mapping[str, Any]
Roles = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class MeshPlan:
    """The hosts, the domain (rack) of each, and how they are measured: ``pairs`` or ``groups``."""

    names: tuple[str, ...]
    domains: Mapping[str, str]
    mode: str
    between_at_once: int = 4

    def complete_domains(self) -> dict[str, str]:
        """Return the domain of every host, empty if it has none."""
        return {name: self.domains.get(name, "") for name in self.names}


@dataclass(frozen=True)
class MeshStep:
    """What to launch next: rounds of roles by host (``assign_roles``), and the tests that they belong to."""

    rounds: list[Roles] = field(default_factory=list)
    launched: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the step; ``launched`` has the tests of this and of all earlier steps."""
        return {"rounds": self.rounds, "launched": self.launched}


def choose_mode(mode: str, hosts: int, pairs_up_to: int) -> str:
    """Return ``pairs`` or ``groups``; ``auto`` chooses by the number of hosts."""
    return mode if mode != "auto" else "pairs" if hosts <= pairs_up_to else "groups"


def plan_step(plan: MeshPlan, launched: Sequence[Launch], measured: Iterable[Mapping[str, Any]]) -> MeshStep:
    """Return the next step; one without rounds is the end."""
    if plan.mode == "pairs":
        return plan_pairs_step(plan, launched, measured)
    step = advance_isolation(
        plan.complete_domains(), collect_results(launched, measured), most_between=plan.between_at_once
    )
    if isinstance(step, IsolationReport):
        return MeshStep([], list(map(dict, launched)))
    return build_step(step, launched)


def plan_pairs_step(
    plan: MeshPlan, launched: Sequence[Launch], measured: Iterable[Mapping[str, Any]]
) -> MeshStep:
    """Return all pairs, then those that are to be measured again, then nothing."""
    if not launched:
        rounds = build_rounds(list(plan.names))
        pairs = [list(pair) for pairs in rounds for pair in pairs]
        return MeshStep(
            [assign_test_roles(pairs, dict.fromkeys(pairs, PAIRS)) for pairs in rounds],
            [{"name": PAIRS, "pairs": pairs}],
        )
    suspects = []
    if len(launched) == 1:
        sessions = [session for found in collect_results(launched, measured).values() for session in found]
        suspects = list_suspect_pairs(plan.names, sessions)
    if not suspects or len(suspects) > MOST_REPEATS_PER_NODE * len(plan.names):
        return MeshStep([], list(map(dict, launched)))
    return build_step([GroupTest(REPEAT, "repeat", plan.names, tuple(suspects))], launched)


def build_step(tests: Sequence[GroupTest], launched: Sequence[Launch]) -> MeshStep:
    """Return the rounds of tests that run at the same time; no host has two partners in a round."""
    test_of = {pair: test.name for test in tests for pair in test.pairs}
    rounds = [assign_test_roles(pairs, test_of) for pairs in color_pairs(test_of)]
    entries = [{"name": test.name, "pairs": [list(pair) for pair in test.pairs]} for test in tests]
    return MeshStep(rounds, [*map(dict, launched), *entries])


def assign_test_roles(pairs: Sequence[tuple[str, str]], test_of: Mapping[tuple[str, str], str]) -> Roles:
    """Return the roles of a round, each with its test."""
    roles = assign_roles(pairs)
    for pair in pairs:
        for end in pair:
            roles[end]["test"] = test_of[pair]
    return roles


def collect_results(
    launched: Sequence[Launch], measured: Iterable[Mapping[str, Any]]
) -> dict[str, list[PairMeasurement]]:
    """Return the sessions of each test that was launched; one without a result is an error."""
    found: dict[tuple[str, frozenset[str]], PairMeasurement] = {}
    for entry in measured:
        node, partner = str(entry.get("node")), str(entry.get("partner"))
        session = read_pair_session(
            node, partner, str(entry.get("stdout") or ""), str(entry.get("stderr") or "")
        )
        found[str(entry.get("test") or PAIRS), frozenset((node, partner))] = session
    return {
        str(test["name"]): [
            found.get((str(test["name"]), frozenset(pair)))
            or PairMeasurement(str(pair[0]), str(pair[1]), error="the session gave no result")
            for pair in test["pairs"]
        ]
        for test in launched
    }


def format_run(plan: MeshPlan, launched: Sequence[Launch], measured: Iterable[Launch]) -> str:
    """Return what an interrupted run needs to go on, as text."""
    return json.dumps(
        {"names": plan.names, "mode": plan.mode, "launched": list(launched), "measured": list(measured)}
    )


def read_run(text: str, where: str, plan: MeshPlan) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the tests and results of an interrupted run of the same hosts; nothing if it was of others.

    A test of which a session is missing was interrupted: it is launched again.
    """
    saved = decode_json_object(text, where, OWN_STATE)
    if (saved.get("names"), saved.get("mode")) != (list(plan.names), plan.mode):
        return [], []
    measured = [dict(entry) for entry in list_mappings(saved.get("measured"))]
    known = {
        (str(entry.get("test")), frozenset((entry.get("node"), entry.get("partner")))) for entry in measured
    }
    launched = [
        dict(test)
        for test in list_mappings(saved.get("launched"))
        if all((str(test.get("name")), frozenset(pair)) in known for pair in test.get("pairs", ()))
    ]
    return launched, measured


def list_mappings(value: Any) -> list[Launch]:
    """Return the mappings of a list, nothing if it is not a list."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def judge_run(
    plan: MeshPlan, launched: Sequence[Launch], measured: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return each host's result and line, and lines of the whole run."""
    results = collect_results(launched, measured)
    sessions = [session for found in results.values() for session in found]
    lines = [f"{len(sessions)} sessions of {len(plan.names)} nodes, all pairs"]
    if plan.mode == "pairs":
        nodes = judge_mesh(plan.names, sessions)
        domains = plan.complete_domains()
        lines += explain_uplinks(nodes, sessions, domains)
        if all(node.outcome == "pass" for node in nodes.values()):
            screened: list[tuple[Purpose, PairMeasurement]] = [("screen", session) for session in sessions]
            lines += describe_spreads(screened, lambda ends: domains[ends[0]] != domains[ends[1]])
    else:
        report = advance_isolation(plan.complete_domains(), results, most_between=plan.between_at_once)
        if not isinstance(report, IsolationReport):
            raise TypeError("the run has not ended")
        nodes, lines = judge_isolated_nodes(plan.names, report, sessions), format_isolation(report)
    return {
        "nodes": {name: node.as_json() for name, node in nodes.items()},
        "summaries": {name: summarize_node(node) for name, node in nodes.items()},
        "lines": lines,
    }
