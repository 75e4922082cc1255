"""A rule with its reason and source, and the table that runs the rules' checks.

The rooms ``fleet`` (what a spec may say), ``sizing`` (how a model may be placed) and ``drivers`` (what a host may
install) hold their rules as ``Rule``; the first two run them through a ``RuleTable``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from gpufleet.errors import InputError
from gpufleet.quick_dataclass import dataclass

Case = TypeVar("Case")
Violation = TypeVar("Violation")


@dataclass(frozen=True)
class Rule:
    """Why something is refused or reported. ``is_blocking``: what breaks the rule cannot go on."""

    id: str
    reason: str
    source: str
    remedy: str = ""
    is_blocking: bool = True


def add_rule(rules: dict[str, Rule], rule: Rule) -> Rule:
    """Add a rule to a room's rules; raise ``ValueError`` if its id is taken."""
    if rule.id in rules:
        raise ValueError(f"rule {rule.id} is registered twice")
    rules[rule.id] = rule
    return rule


class RuleTable(Generic[Case, Violation]):
    """The rules that check one kind of value, in the order of their registration."""

    def __init__(self, rules: dict[str, Rule]) -> None:
        self._rules = rules
        self._checks: list[tuple[Rule, Callable[[Case], Iterator[Violation]]]] = []

    def register_rule(
        self, id_: str, *, reason: str, source: str, is_blocking: bool = True
    ) -> Callable[[Callable[[Case], Iterator[Violation]]], Callable[[Case], Iterator[Violation]]]:
        """Register the decorated check, which yields one violation for each place where the rule is broken."""

        def register(check: Callable[[Case], Iterator[Violation]]) -> Callable[[Case], Iterator[Violation]]:
            rule = add_rule(self._rules, Rule(id_, reason, source, is_blocking=is_blocking))
            self._checks.append((rule, check))
            return check

        return register

    def find_violations(
        self, case: Case, *, only_blocking: bool = False, is_partial: bool = False
    ) -> Iterator[tuple[Rule, Violation]]:
        """Yield each violation with the rule that it breaks.

        ``is_partial``: the case has no attribute where its input is wrong, or names what is not declared. A rule
        that needs it ends there.
        """
        for rule, check in self._checks:
            if rule.is_blocking or not only_blocking:
                try:
                    yield from ((rule, violation) for violation in check(case))
                except (AttributeError, LookupError, InputError):
                    if not is_partial:
                        raise
