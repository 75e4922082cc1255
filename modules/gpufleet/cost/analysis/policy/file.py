"""Read a policy file; an error is one line with its file and line number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gpufleet.boundary import decode_yaml_with_line_numbers, format_key_location, read_text, shorten_repr
from gpufleet.cost.analysis.policy.model import (
    GROUPS,
    LIMITS,
    CostLimits,
    CostPolicy,
    PolicyRule,
    PolicyScope,
)
from gpufleet.cost.inputs.terms import LIMITED_TIME, TERMS
from gpufleet.cost.money import to_decimal
from gpufleet.errors import InputError

PURCHASES = ("on_demand", "spot", "reserved", *TERMS, *LIMITED_TIME)
SCOPES = ("stack", *GROUPS)
RULE_KEYS = ("name", "when", "each", "on_violation")
QUALIFIERS = ("ignore_increase_below_usd_per_month",)  # of other limits


def load_policy(path: Path, text: str | None = None) -> CostPolicy:
    """Read a policy file; ``text`` is its content where it is not that of the working tree."""
    data = decode_yaml_with_line_numbers(read_text(path) if text is None else text, str(path))
    return _parse_policy(data, path)


def _parse_policy(data: Any, path: Path) -> CostPolicy:
    if data is None:
        return CostPolicy()
    known = (*LIMITS, "rules")
    if not isinstance(data, dict):
        raise InputError("not a mapping of rules", where=f"{path}:1", remedy=f"rules: {', '.join(known)}")
    rules = (
        _parse_rules(data["rules"], path, format_key_location(data, "rules", path)) if "rules" in data else ()
    )
    return CostPolicy(**_parse_limits(data, path, known, other_keys=("rules",)), rules=rules)


def _parse_rules(value: Any, path: Path, where: str) -> tuple[PolicyRule, ...]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InputError("not a list of rules", where=where, key="rules", remedy="- name: … in each item")
    rules = tuple(_parse_rule(item, path) for item in value)
    names = [rule.name for rule in rules]
    if duplicate := next((name for name in names if names.count(name) > 1), None):
        raise InputError(
            f"two rules are named {duplicate!r}",
            where=where,
            key="rules",
            remedy="give each rule its own name",
        )
    return rules


def _parse_rule(item: Mapping[str, Any], path: Path) -> PolicyRule:
    where = f"{path}:{getattr(item, 'lc').line + 1}"  # noqa: B009 - ruamel's mappings know their line
    name = item.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InputError("a rule without a name", where=where, key="rules", remedy="add `name: …`")
    limits = _parse_limits(item, path, (*RULE_KEYS, *LIMITS), other_keys=RULE_KEYS)
    if not set(limits) - set(QUALIFIERS):
        known = (each for each in LIMITS if each not in QUALIFIERS)
        raise InputError("has no limit", where=where, key=name, remedy=f"limits: {', '.join(known)}")
    when = (
        _parse_scope(item["when"], format_key_location(item, "when", path))
        if "when" in item
        else PolicyScope()
    )
    each = _parse_choice(item, "each", ("", *GROUPS), path)
    is_advice = _parse_choice(item, "on_violation", ("fail", "warn"), path) == "warn"
    return PolicyRule(name.strip(), when, CostLimits(**limits), each, is_advice)


def _parse_choice(item: Mapping[str, Any], key: str, choices: tuple[str, ...], path: Path) -> str:
    """Return a key's value, the first choice without it."""
    value = item.get(key, choices[0])
    if value not in choices:
        known = ", ".join(filter(None, choices))
        raise InputError(
            f"{_describe_value(value)} is not one of {known}",
            where=format_key_location(item, key, path),
            key=key,
        )
    return str(value)


def _parse_scope(value: Any, where: str) -> PolicyScope:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise InputError(
            "is not a mapping of scopes to patterns", where=where, key="when", remedy="{pool: train*}"
        )
    for key in value:
        if key not in SCOPES:
            raise InputError(
                "unknown scope", where=where, key=str(key), remedy=_suggest_key(str(key), SCOPES)
            )
    return PolicyScope(**value)


def _parse_limits(
    data: Mapping[Any, Any], path: Path, known: tuple[str, ...], other_keys: tuple[str, ...]
) -> dict[str, Any]:
    """Return the limits of a mapping by name, without ``other_keys``."""
    limits: dict[str, Any] = {}
    for key, value in data.items():
        name, where = ALIASES.get(key, key), format_key_location(data, key, path)
        if name in limits:
            raise InputError(
                f"is the same limit as {name}", where=where, key=str(key), remedy="keep one of them"
            )
        if name not in other_keys:
            limits[name] = _parse_limit(name, value, where, known)
    return limits


def _parse_limit(key: Any, value: Any, where: str, known: tuple[str, ...]) -> Any:
    check = CHECKS.get(key)
    if check is None:
        raise InputError("unknown rule", where=where, key=str(key), remedy=_suggest_key(str(key), known))
    try:
        return check(value)
    except ValueError as error:
        raise InputError(f"{_describe_value(value)} is not {error}", where=where, key=key) from None


def _describe_value(value: Any) -> str:
    return "nothing" if value is None else shorten_repr(value)


def _suggest_key(key: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(key, known, n=1, cutoff=0.4)
    return f"did you mean {close[0]}?" if close else f"rules: {', '.join(known)}"


def _check_amount(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError("a number of 0 or more")
    return to_decimal(value)


def _check_days(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a whole number of days")
    return value


def _check_allowed_types(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    keywords: dict[Any, tuple[str, ...]] = {"allow": ("*",), "forbid": ()}
    if not isinstance(value, str) or value not in keywords:
        raise ValueError("allow, forbid, or a list of resource types")
    return keywords[value]


def _check_purchases(value: Any) -> Any:
    if not isinstance(value, list) or not value or not all(item in PURCHASES for item in value):
        raise ValueError(f"a list of {', '.join(PURCHASES)}")
    return tuple(value)


ALIASES: dict[Any, str] = {
    "max_usd_per_month": "budget_usd_per_month"
}  # the natural name in a rule for a part
CHECKS: dict[Any, Callable[[Any], Any]] = {
    "budget_usd_per_month": _check_amount,
    "max_high_usd_per_month": _check_amount,
    "max_increase_usd_per_month": _check_amount,
    "max_increase_percent": _check_amount,
    "max_price_age_days": _check_days,
    "unpriced": _check_allowed_types,
    "unknown_usage": _check_allowed_types,
    "max_resource_usd_per_month": _check_amount,
    "purchases": _check_purchases,
    "ignore_increase_below_usd_per_month": _check_amount,
    "unknown_change": _check_allowed_types,
}
