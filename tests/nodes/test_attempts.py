from __future__ import annotations

import pytest


def report(verdict):
    return {"verdict": verdict, "checks": []}


@pytest.fixture
def blade(registry, lab):
    registry.report(lab.rack(lab.blade(1)))
    registry.advance("blade01", "commissioning", "answered", lab.minutes(1))
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
def test_a_verdict_moves_the_node(registry, blade, verdict, state, holds):
    attempt = registry.start_attempt(blade, "burn_in")
    assert registry.record_result(blade, attempt, report(verdict), [{"n": 1}], reason="why") == "applied"
    node = registry.get(blade)
    assert (node.state, [hold.kind for hold in node.holds], node.verdict) == (state, holds, verdict)


def test_the_same_result_again_changes_nothing(registry, blade):
    attempt = registry.start_attempt(blade, "burn_in")
    registry.record_result(blade, attempt, report("healthy"), [{"n": 1}])
    before = registry.history(blade)
    assert registry.record_result(blade, attempt, report("healthy"), [{"n": 1}]) == "repeated"
    assert registry.history(blade) == before


def test_a_late_result_of_an_old_attempt_changes_nothing(registry, blade, lab):
    old = registry.start_attempt(blade, "burn_in", "old", lab.minutes(2))
    registry.start_attempt(blade, "burn_in", "new", lab.minutes(3))
    assert registry.record_result(blade, old, report("faulty"), [{"n": 1}]) == "ignored"
    assert registry.get(blade).state == "commissioning"
    assert registry.history(blade)[-1].event == "ignored"
    assert registry.results(blade) == []


def test_an_unheard_of_attempt_that_began_earlier_is_late_too(registry, blade, lab):
    begun = {"began": registry.draw_revision(), "when": lab.minutes(9)}
    registry.start_attempt(blade, "burn_in", "new", lab.minutes(3))
    assert registry.record_result(blade, "older", report("faulty"), [{}], **begun) == "ignored"


def test_an_unheard_of_attempt_that_began_later_counts(registry, blade, lab):
    registry.start_attempt(blade, "burn_in", "first", lab.minutes(2))
    begun = {"began": registry.draw_revision(), "when": lab.minutes(9)}
    assert registry.record_result(blade, "second", report("healthy"), [{}], **begun) == "applied"
    assert registry.get(blade).attempt == "second"


def test_an_ended_attempt_takes_no_second_verdict(registry, blade):
    attempt = registry.start_attempt(blade, "burn_in")
    registry.record_result(blade, attempt, report("faulty"), [{"n": 1}])
    assert registry.record_result(blade, attempt, report("healthy"), [{"n": 2}]) == "ignored"
    assert registry.get(blade).state == "quarantined"


def test_an_incomplete_attempt_may_be_completed(registry, blade):
    attempt = registry.start_attempt(blade, "burn_in")
    registry.record_result(blade, attempt, report("incomplete"), [{"n": 1}])
    assert registry.record_result(blade, attempt, report("healthy"), [{"n": 2}]) == "applied"
    assert registry.get(blade).state == "ready"


def test_a_quarantined_node_is_not_freed_by_a_result(registry, blade, lab):
    registry.move(blade, "quarantined", "smoke")
    assert registry.record_result(blade, "a", report("healthy"), [{}]) == "ignored"
    assert registry.get(blade).state == "quarantined"


def test_a_healthy_result_lifts_only_burn_ins_own_hold(registry, blade):
    registry.record_result(blade, "a", report("degraded"), [{"n": 1}], reason="undervoltage")
    registry.hold(blade, "cost", "over budget")
    registry.record_result(blade, "b", report("healthy"), [{"n": 2}])
    assert [hold.kind for hold in registry.get(blade).holds] == ["cost"]


def test_a_person_s_hold_survives_a_healthy_result(registry, blade):
    registry.hold(blade, "operator", "mine, hands off")
    registry.record_result(blade, "a", report("healthy"), [{}])
    node = registry.get(blade)
    assert (node.state, node.is_usable) == ("ready", False)


def test_records_are_kept_to_judge_them_again(registry, blade):
    registry.record_result(blade, "a", report("healthy"), [{"type": "start", "x": [1, 2]}])
    (stored,) = registry.results(blade, "a")
    assert (stored.records, stored.verdict) == ([{"type": "start", "x": [1, 2]}], "healthy")
