"""Test the kept answers of probes on both databases."""

from __future__ import annotations

from gpufleet.nodes.fact_log import KEPT_ANSWERS


def test_equal_answer_only_renews_its_time(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    for at in (1, 2):
        registry.record_facts("blade01", "=== gpufleet arch\naarch64\n", lab.minutes(at))
    (kept,) = registry.list_facts(["blade01"])
    assert (kept.first_at, kept.last_at) == (lab.minutes(1), lab.minutes(2))
    assert kept.text == "=== gpufleet arch\naarch64\n"


def test_older_answer_is_not_entered(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    registry.record_facts("blade01", "new", lab.minutes(2))
    registry.record_facts("blade01", "old", lab.minutes(1))
    assert [kept.text for kept in registry.list_facts()] == ["new"]


def test_newest_answers_of_each_node_are_kept(registry, lab):
    registry.apply_source_report(lab.rack(lab.blade(1), lab.blade(2)))
    registry.record_facts("blade02", "other", lab.minutes(0))
    for number in range(KEPT_ANSWERS + 5):
        registry.record_facts("blade01", f"answer {number}", lab.minutes(number))
    kept = [answer.text for answer in registry.list_facts(["blade01"])]
    assert kept == [f"answer {number}" for number in range(5, KEPT_ANSWERS + 5)]
    assert [answer.text for answer in registry.list_facts(["blade02"])] == ["other"]
