"""A rule table: ids stay unique, violations come with their rule, in the order of registration."""

from __future__ import annotations

import pytest

from gpufleet.rule import Rule, RuleTable, add_rule


@pytest.fixture
def numbers():
    table = RuleTable({})

    @table.register_rule("small", reason="a number is below ten", source="the test")
    def check_small(number):
        if number >= 10:
            yield f"{number} is not below ten"

    @table.register_rule("even", reason="a number is even", source="the test", is_blocking=False)
    def check_even(number):
        if number % 2:
            yield f"{number} is odd"

    return table


def test_violations_are_reported_with_their_rule(numbers):
    assert [(rule.id, message) for rule, message in numbers.find_violations(11)] == [
        ("small", "11 is not below ten"),
        ("even", "11 is odd"),
    ]
    assert list(numbers.find_violations(4)) == []


def test_only_blocking_rules_are_checked_on_request(numbers):
    assert list(numbers.find_violations(5, only_blocking=True)) == []
    assert [rule.id for rule, _ in numbers.find_violations(12, only_blocking=True)] == ["small"]


def test_rule_ids_are_unique_over_the_tables_of_a_package():
    rules: dict[str, Rule] = {}
    add_rule(rules, Rule("taken", "a reason", "a source"))
    with pytest.raises(ValueError, match="rule taken is registered twice"):
        RuleTable(rules).register_rule("taken", reason="another", source="another")(lambda number: iter(()))
