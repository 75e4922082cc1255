"""The rules fire on their own examples and nowhere else; gaps, resets, restarts and unknown values conclude nothing."""

from __future__ import annotations

import json

import pytest

from gpufleet.boundary import Sample, decode_exposition
from gpufleet.operations.watch.condition import Answer, Moment, NodeState, evaluate_node
from gpufleet.operations.watch.rule import SILENCE, WatchRule, expand_values, load_watch_rules

RULES = {rule.rule: rule for rule in load_watch_rules()}


def play(rule: WatchRule, values: str, divisor: str = "", start: float = 0.0, state: NodeState | None = None):
    """Return the changes of each step of an example; ``start`` is when it begins."""
    state = state or NodeState()
    divisors = expand_values(divisor) if divisor else []
    steps = []
    for number, value in enumerate(expand_values(values)):
        lines = [] if value is None else [f"{rule.example.series} {value}"]
        if divisors:
            name = rule.example.series.partition("{")[2]
            lines.append(f"{rule.divided_by}{{{name} {divisors[number]}")
        samples = decode_exposition("\n".join(lines) + "\n", "test", {rule.metric, rule.divided_by})
        exporter = "node" if rule.metric == SILENCE else rule.exporter
        answer = Answer(exporter, samples)
        if rule.metric == SILENCE:
            answer = Answer(exporter, [] if value else None)
        moment = Moment(start + number * rule.example.step_s, 3 * rule.example.step_s)
        steps.append(evaluate_node(state, [answer], [rule], moment))
    return steps


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_rule_fires_at_the_end_of_its_example_and_rests_else(rule):
    steps = play(rule, rule.example.fires, rule.example.divisor)
    assert any(change.is_open for step in steps for change in step)
    rest = play(rule, rule.example.rests, rule.example.divisor)
    opened = [change for step in rest for change in step if change.is_open]
    # a code of an XID is an event of its own: the dictionary decides what it is
    assert not opened or rule.event


def test_condition_must_hold_without_a_pause():
    steps = play(RULES["gpu_hot"], "95 95 70 95 95 95")
    assert [len(step) for step in steps] == [0, 0, 0, 0, 0, 1]
    assert steps[5][0].held_s == 120
    assert steps[5][0].position == "0000:18:00.0"


def test_gap_concludes_nothing():
    state, rule = NodeState(), RULES["gpu_hot"]
    play(rule, "95 95", state=state)
    assert play(rule, "95 95", start=10_000, state=state) == [[], []]  # two hours later: it counts anew
    assert play(rule, "95", start=10_120, state=state)[0][0].is_open


def test_counter_that_grew_while_nobody_watched_is_no_finding():
    state, rule = NodeState(), RULES["memory_uncorrected"]
    play(rule, "5 5", state=state)
    assert play(rule, "9", start=10_000, state=state) == [[]]
    assert play(rule, "10", start=10_060, state=state)[0][0].value == 1


def test_counter_that_begins_again_counts_from_zero():
    steps = play(RULES["memory_corrected"], "1000 0 51")
    assert [len(step) for step in steps] == [0, 0, 1]


def test_window_of_a_counter_ends():
    rule, state = RULES["memory_corrected"], NodeState()
    play(rule, "0 51", state=state)
    changes = [step for at in range(1, 30) for step in evaluate_node(
        state, [Answer("node", decode_exposition(f"{rule.example.series} 51\n", "t", {rule.metric}))], [rule],
        Moment(60 + at * 3600, 4000),
    )]  # fmt: skip
    assert [change.is_open for change in changes] == [False]


def test_new_xid_is_an_event_once_and_a_known_one_is_not():
    steps = play(RULES["gpu_xid"], "0 79 79 31 0 31")
    assert [[change.value for change in step] for step in steps] == [[], [79], [], [31], [], [31]]


def test_xid_from_before_the_watch_is_no_event():
    assert play(RULES["gpu_xid"], "79 79") == [[], []]


def test_series_that_appears_with_its_first_xid_is_an_event():
    steps = play(RULES["gpu_xid"], "_ _ 79")
    assert [len(step) for step in steps] == [0, 0, 1]


def test_value_that_means_unknown_is_none():
    assert not any(play(RULES["gpu_hot"], "9223372036854775794x5"))


def test_finding_that_ends_is_a_change():
    steps = play(RULES["root_read_only"], "0 1 1 0")
    assert [[change.is_open for change in step] for step in steps] == [[], [], [True], [False]]


def test_exporter_that_never_answered_is_not_silent():
    assert not any(play(RULES["exporter_silent"], "0x9"))


def test_silence_does_not_count_while_the_controller_is_cut_off():
    rule, state = RULES["exporter_silent"], NodeState()
    play(rule, "1", state=state)
    for number in range(1, 9):
        moment = Moment(number * 60, 180, counts_silence=False)
        assert evaluate_node(state, [Answer("node", None)], [rule], moment) == []


def test_other_exporters_series_do_not_meet_a_rule():
    sample = Sample("DCGM_FI_DEV_ROW_REMAP_FAILURE", (("gpu", "0"),), 1.0)
    assert evaluate_node(NodeState(), [Answer("node", [sample])], list(RULES.values()), Moment(0, 60)) == []


def test_state_survives_json():
    rule, state = RULES["gpu_hot"], NodeState()
    play(rule, "95 95", state=state)
    again = NodeState.from_json(json.loads(json.dumps(state.as_json(60))), 60)
    assert again == state
    assert play(rule, "95", start=120, state=again)[0][0].held_s == 120


def test_node_cannot_fill_the_memory():
    rule, state = RULES["gpu_rows_remapped"], NodeState()
    samples = [Sample(rule.metric, (("gpu", str(number)),), 95.0) for number in range(6000)]
    evaluate_node(state, [Answer("dcgm", samples)], [rule], Moment(0, 60))
    assert len(state.series) == 4096


def test_part_that_is_missing_after_a_gap_was_perhaps_taken_out():
    rule, state = RULES["gpu_gone"], NodeState()
    play(rule, "40", state=state)
    assert not any(play(rule, "_x9", start=10_000, state=state))
    assert not state.series


def test_labels_of_a_pod_do_not_make_another_series():
    rule, state = RULES["gpu_gone"], NodeState()
    for number, pod in enumerate("abcdefghijkl"):
        sample = Sample(
            rule.metric, (("UUID", "GPU-1"), ("pci_bus_id", "00000000:18:00.0"), ("pod", pod)), 40.0
        )
        assert evaluate_node(state, [Answer("dcgm", [sample])], [rule], Moment(number * 60, 180)) == []
    assert len(state.series) == 1


def test_drive_that_is_gone_has_its_last_place():
    steps = play(RULES["nvme_gone"], RULES["nvme_gone"].example.fires)
    (change,) = [change for step in steps for change in step]
    assert (change.position, change.is_open) == ("nvme1n1", True)
