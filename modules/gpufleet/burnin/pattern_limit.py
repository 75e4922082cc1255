"""Refuse a regular expression whose time could grow out of bounds on a hostile line."""

from __future__ import annotations

import re
import re._constants as opcodes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from typing import Any

MAX_PATTERN_CHARACTERS = 200
# A repeat that may take this many characters counts as wide. Lines have at most 240 characters, and a rule's word must
# be in the line before its pattern is tried.
WIDE, MAX_WIDE_REPEATS = 16, 4
REPEATS = (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT, getattr(opcodes, "POSSESSIVE_REPEAT", None))
REFUSED = {
    opcodes.GROUPREF: "a reference to a group",
    opcodes.GROUPREF_EXISTS: "a condition on a group",
    opcodes.ASSERT: "a look-ahead or look-behind",
    opcodes.ASSERT_NOT: "a look-ahead or look-behind",
}


def find_pattern_fault(pattern: str) -> str:
    """Return what is wrong with a pattern, or nothing: it must compile, and take bounded time on any line."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        return f"the pattern must have at most {MAX_PATTERN_CHARACTERS} characters, it has {len(pattern)}"
    try:
        tree = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"the pattern is not a regular expression: {error}"
    groups = set(tree.state.groupdict) - {"at", "key"}
    if groups:
        return f"the group {min(groups)!r} is not known; use (?P<at>…) and (?P<key>…)"
    if parser.parse(pattern).getwidth()[0] == 0:
        return "the pattern must not match an empty text"
    walk = _Walk()
    walk.visit(tree, inside=False)
    if not walk.fault and walk.wide > MAX_WIDE_REPEATS:
        return f"the pattern has {walk.wide} wide repeats; at most {MAX_WIDE_REPEATS} are allowed"
    return walk.fault


class _Walk:
    """Counts wide repeats, and finds what is refused, in a parsed pattern."""

    def __init__(self) -> None:
        self.fault, self.wide = "", 0

    def visit(self, node: Any, *, inside: bool) -> None:
        for opcode, argument in node:
            if opcode in REFUSED:
                self.fault = self.fault or f"the pattern has {REFUSED[opcode]}, which may take too long"
            elif opcode in REPEATS:
                self._visit_repeat(argument, inside=inside)
            elif opcode is opcodes.SUBPATTERN:
                self.visit(argument[3], inside=inside)
            elif opcode is opcodes.BRANCH:
                for branch in argument[1]:
                    self.visit(branch, inside=inside)

    def _visit_repeat(self, argument: Any, *, inside: bool) -> None:
        low, high, body = argument
        if high > 1 and low != high:
            if inside:
                self.fault = self.fault or "the pattern has a repeat inside a repeat, which may take too long"
            if high == opcodes.MAXREPEAT:
                self.fault = self.fault or "the pattern has a repeat without a bound; write {0,60} for *"
            self.wide += high >= WIDE
        self.visit(body, inside=inside or high > 1)
