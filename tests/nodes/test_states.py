from __future__ import annotations

import pytest

from gpufleet.errors import InputError
from gpufleet.nodes import HOLDS, NEW_STATES, STATES, TRANSITIONS, VERDICT_MOVES
from gpufleet.nodes.states import check_hold, check_move

PAIRS = [(old, new) for old in STATES for new in STATES]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_only_the_table_moves_a_node(old, new):
    if new in TRANSITIONS[old]:
        check_move("blade01", old, new)
        return
    with pytest.raises(InputError) as refused:
        check_move("blade01", old, new)
    assert all(legal in str(refused.value) for legal in TRANSITIONS[old])


def test_the_table_names_only_states_it_knows():
    assert {new for moves in TRANSITIONS.values() for new in moves} <= set(STATES)


def test_ready_is_reached_only_through_burn_in_or_a_drain():
    assert {old for old in STATES if "ready" in TRANSITIONS[old]} == {"burn_in", "draining"}


def test_retired_is_final():
    assert TRANSITIONS["retired"] == ()


def test_every_state_can_end_in_retirement():
    reached = {"retired"}
    for _ in STATES:
        reached |= {old for old in STATES if reached & set(TRANSITIONS[old])}
    assert reached == set(STATES)


def test_a_verdict_moves_only_where_burn_in_may():
    for state, hold in VERDICT_MOVES.values():
        assert state == "burn_in" or state in TRANSITIONS["burn_in"]
        assert hold is None or hold in HOLDS


def test_new_states_lead_up_to_ready():
    assert NEW_STATES == ("expected", "discovered", "commissioning", "burn_in")
    assert "ready" in TRANSITIONS[NEW_STATES[-1]]


def test_an_unknown_state_names_the_known_ones():
    with pytest.raises(InputError, match="expected, discovered"):
        check_move("blade01", "ready", "sleeping")


def test_an_unknown_hold_names_the_known_ones():
    with pytest.raises(InputError, match="drift, cost, security, operator"):
        check_hold("blade01", "lunch")
