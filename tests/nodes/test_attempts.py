from __future__ import annotations

import pytest


def build_report(verdict):
    return {"verdict": verdict, "checks": []}


@pytest.fixture
def blade(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.advance_node("blade01", "commissioning", "answered", lab.minutes(1))
    return "blade01"


@pytest.mark.parametrize(
    ("verdict", "state", "holds"),
    [
        ("healthy", "ready", []),
        ("degraded", "ready", ["operator"]),
        ("faulty", "quarantined", []),
        ("incomplete", "burn_in", []),
    ],
)
def test_verdict_moves_the_node(registry, blade, verdict, state, holds):
    attempt = registry.start_attempt(blade, "burn_in")
    assert (
        registry.record_burn_in_result(blade, attempt, build_report(verdict), [{"n": 1}], reason="why")
        == "applied"
    )
    node = registry.get_node(blade)
    assert (node.state, [hold.kind for hold in node.holds], node.verdict) == (state, holds, verdict)


def test_repeated_result_changes_nothing(registry, blade):
    attempt = registry.start_attempt(blade, "burn_in")
    registry.record_burn_in_result(blade, attempt, build_report("healthy"), [{"n": 1}])
    before = registry.list_node_history(blade)
    assert registry.record_burn_in_result(blade, attempt, build_report("healthy"), [{"n": 1}]) == "repeated"
    assert registry.list_node_history(blade) == before


def test_late_result_of_an_old_attempt_changes_nothing(registry, blade, lab):
    old = registry.start_attempt(blade, "burn_in", "old", lab.minutes(2))
    registry.start_attempt(blade, "burn_in", "new", lab.minutes(3))
    assert registry.record_burn_in_result(blade, old, build_report("faulty"), [{"n": 1}]) == "ignored"
    assert registry.get_node(blade).state == "commissioning"
    assert registry.list_node_history(blade)[-1].event == "ignored"
    assert registry.list_burn_in_results(blade) == []


def test_unknown_attempt_that_started_earlier_is_ignored(registry, blade, lab):
    begun = {"start_revision": registry.create_revision(), "when": lab.minutes(9)}
    registry.start_attempt(blade, "burn_in", "new", lab.minutes(3))
    assert registry.record_burn_in_result(blade, "older", build_report("faulty"), [{}], **begun) == "ignored"


def test_unknown_attempt_that_started_later_is_applied(registry, blade, lab):
    registry.start_attempt(blade, "burn_in", "first", lab.minutes(2))
    begun = {"start_revision": registry.create_revision(), "when": lab.minutes(9)}
    assert (
        registry.record_burn_in_result(blade, "second", build_report("healthy"), [{}], **begun) == "applied"
    )
    assert registry.get_node(blade).attempt == "second"


def test_finished_attempt_accepts_no_second_verdict(registry, blade):
    attempt = registry.start_attempt(blade, "burn_in")
    registry.record_burn_in_result(blade, attempt, build_report("faulty"), [{"n": 1}])
    assert registry.record_burn_in_result(blade, attempt, build_report("healthy"), [{"n": 2}]) == "ignored"
    assert registry.get_node(blade).state == "quarantined"


def test_incomplete_attempt_can_be_completed(registry, blade):
    attempt = registry.start_attempt(blade, "burn_in")
    registry.record_burn_in_result(blade, attempt, build_report("incomplete"), [{"n": 1}])
    assert registry.record_burn_in_result(blade, attempt, build_report("healthy"), [{"n": 2}]) == "applied"
    assert registry.get_node(blade).state == "ready"


def test_healthy_result_does_not_release_a_quarantined_node(registry, blade, lab):
    registry.move_node(blade, "quarantined", "smoke")
    assert registry.record_burn_in_result(blade, "a", build_report("healthy"), [{}]) == "ignored"
    assert registry.get_node(blade).state == "quarantined"


def test_healthy_result_releases_only_the_hold_of_burn_in(registry, blade):
    registry.record_burn_in_result(blade, "a", build_report("degraded"), [{"n": 1}], reason="undervoltage")
    registry.set_node_hold(blade, "cost", "over budget")
    registry.record_burn_in_result(blade, "b", build_report("healthy"), [{"n": 2}])
    assert [hold.kind for hold in registry.get_node(blade).holds] == ["cost"]


def test_operator_hold_survives_a_healthy_result(registry, blade):
    registry.set_node_hold(blade, "operator", "mine, hands off")
    registry.record_burn_in_result(blade, "a", build_report("healthy"), [{}])
    node = registry.get_node(blade)
    assert (node.state, node.is_usable) == ("ready", False)


def test_records_are_stored_for_a_later_judgement(registry, blade):
    registry.record_burn_in_result(blade, "a", build_report("healthy"), [{"type": "start", "x": [1, 2]}])
    (stored,) = registry.list_burn_in_results(blade, "a")
    assert (stored.records, stored.verdict) == ([{"type": "start", "x": [1, 2]}], "healthy")
