"""Test the table of node states, and that Ansible variables, styles and documentation agree with it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gpufleet.console import report
from gpufleet.errors import InputError
from gpufleet.nodes import HOLDS, NEW_STATES, STATES, VERDICT_MOVES, schema
from gpufleet.nodes.host import build_node_variables
from gpufleet.nodes.states import check_hold_kind, check_state_change

ROOT = Path(__file__).resolve().parents[2]
PAIRS = [(old, new) for old in STATES for new in STATES]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_node_moves_only_as_the_table_allows(old, new):
    if new in STATES[old].next_states:
        check_state_change("blade01", old, new)
        return
    with pytest.raises(InputError) as excinfo:
        check_state_change("blade01", old, new)
    assert all(legal in str(excinfo.value) for legal in STATES[old].next_states)


def test_next_states_are_in_the_table():
    assert {new for state in STATES.values() for new in state.next_states} <= set(STATES)


def test_ready_is_reached_only_through_burn_in_or_a_drain():
    assert {old for old in STATES if "ready" in STATES[old].next_states} == {"burn_in", "draining"}


def test_retired_is_final():
    assert (STATES["retired"].next_states, STATES["retired"].left_by) == ((), "nothing")


def test_every_state_can_lead_to_retirement():
    reached = {"retired"}
    for _ in STATES:
        reached |= {old for old in STATES if reached & set(STATES[old].next_states)}
    assert reached == set(STATES)


def test_verdict_moves_a_node_only_out_of_burn_in():
    for state, hold in VERDICT_MOVES.values():
        assert state == "burn_in" or state in STATES["burn_in"].next_states
        assert hold is None or hold in HOLDS


def test_every_state_left_by_a_verdict_is_or_leads_to_burn_in():
    names = [state.name for state in STATES.values() if state.left_by == "verdict"]
    assert all(name == "burn_in" or "burn_in" in STATES[name].next_states for name in names)


def test_new_states_lead_to_each_other_and_to_ready():
    path = [*NEW_STATES, "ready"]
    assert all(new in STATES[old].next_states for old, new in pairwise(path))


def test_state_that_needs_attention_is_left_only_by_an_operator():
    states = [state for state in STATES.values() if state.needs_attention]
    assert states
    assert all((state.left_by, state.is_usable) == ("person", False) for state in states)


def test_state_names_fit_their_database_column():
    assert max(map(len, STATES)) <= schema.node.c.state.type.length


@pytest.mark.parametrize("state", STATES.values(), ids=lambda state: state.name)
def test_ansible_gets_the_properties_of_a_state(registry, lab, state):
    registry.apply_source_report(lab.rack(lab.blade(1)))
    node = replace(registry.get_node("blade01"), state=state.name)
    variables = build_node_variables(node)
    assert (variables["gpufleet_is_new"], variables["gpufleet_is_busy"]) == (state.is_new, state.is_busy)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("hold_kinds", [[], [{"kind": "cost", "reason": "test"}]])
def test_html_report_has_a_style_for_every_state(state, hold_kinds):
    tone = report.choose_rack_cell_css_class({"state": state, "holds": hold_kinds})
    style = (Path(report.__file__).parent / "templates/console.html.j2").read_text()
    assert tone in report.TONES
    assert ("\n.blade {" if tone == "idle" else f".blade.{tone} {{") in style


def test_documentation_shows_the_state_table():
    rows = [
        f"| `{state.name}` | {state.meaning} | {', '.join(f'`{name}`' for name in state.next_states)} |"
        f" {state.left_by} | {_properties(state)} |"
        for state in STATES.values()
    ]
    text = (ROOT / "docs/inventory.md").read_text()
    table = re.search(r"\| state \|.*\n\|[-|]+\n((?:\|.*\n)+)", text)
    assert table, "docs/inventory.md has no table of states"
    assert table[1].splitlines() == [re.sub(r" +", " ", row) for row in rows]


def _properties(state):
    names = {
        "new": state.is_new,
        "busy": state.is_busy,
        "usable": state.is_usable,
        "needs attention": state.needs_attention,
    }
    return ", ".join(name for name, is_set in names.items() if is_set)


def test_unknown_state_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="expected, discovered"):
        check_state_change("blade01", "ready", "sleeping")


def test_unknown_hold_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="drift, cost, security, operator"):
        check_hold_kind("blade01", "lunch")
