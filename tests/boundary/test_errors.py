"""Test that error messages are one printable line of bounded length, whatever they quote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.errors import LONGEST, InputError

QUOTED = st.text(st.characters(), max_size=50)


@given(QUOTED, QUOTED, QUOTED, QUOTED)
def test_message_is_one_printable_line(problem, where, key, remedy):
    assert str(InputError(problem, where=where, key=key, remedy=remedy)).isprintable()


@pytest.mark.parametrize("text", ["x" * 10_000, "\x1b" * 10_000])
def test_message_length_is_bounded(text):
    assert len(str(InputError(text))) <= LONGEST + 1
