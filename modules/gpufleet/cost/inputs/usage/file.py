"""Read a usage file; an error is one line with its file and line number.

overlap_hours: 0.5              # how long old and new run together in a replacement
resources:                      # by name or URN; * and ? are wildcards
  web-*: {schedule: weekdays 8-18, desired: 3}
types:
  aws:ec2/natGateway:NatGateway: {processed_gib: 500}
  aws:s3/bucket:Bucket: {standard: {storage_gb: 2000}}   # keys of data/usage_keys.csv, nested or with dots
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from gpufleet.boundary import decode_yaml_with_line_numbers, read_packaged_rows, read_text, shorten_repr
from gpufleet.cost.inputs.usage.model import OVERLAP_HOURS, ResourceUsage, UsageFile, UsageFileEntry
from gpufleet.cost.inputs.usage.schedule import parse_schedule_hours_per_month
from gpufleet.cost.money import HOURS_PER_MONTH, to_decimal
from gpufleet.errors import InputError

MAX_AMOUNT = 10**15  # of a month: no cloud sells more, and products of such amounts are still exact


def load_usage_file(path: Path, text: str | None = None) -> UsageFile:
    """Read a usage file; ``text`` is its content where it is not that of the working tree."""
    data = decode_yaml_with_line_numbers(read_text(path) if text is None else text, str(path))
    if data is None:
        return UsageFile(str(path))
    _require_mapping(data, f"{path}:1", "the file")
    for key in data:
        if key not in SECTIONS:
            raise InputError(
                "unknown section",
                where=_location(path, data, key),
                key=str(key),
                remedy=INFRACOST_REMEDY if key in INFRACOST_SECTIONS else _suggest_key(key, SECTIONS),
            )
    overlap = data.get("overlap_hours")
    return UsageFile(
        str(path),
        _parse_entries(path, data, "resources"),
        _parse_entries(path, data, "types"),
        OVERLAP_HOURS
        if overlap is None
        else _check_value(_parse_amount, overlap, _location(path, data, "overlap_hours"), "overlap_hours"),
    )


def _parse_entries(path: Path, data: Any, section: str) -> tuple[UsageFileEntry, ...]:
    patterns = data.get(section)
    if patterns is None:
        return ()
    _require_mapping(patterns, _location(path, data, section), section)
    return tuple(
        UsageFileEntry(
            str(pattern),
            _parse_usage(path, fields, _location(path, patterns, pattern), str(pattern)),
            _line_number(patterns, pattern),
        )
        for pattern, fields in patterns.items()
    )


def _parse_usage(path: Path, entry: Any, where: str, pattern: str) -> ResourceUsage:
    _require_mapping(entry, where, pattern)
    values: dict[str, Decimal] = {}
    amounts: dict[str, Decimal] = {}
    for key, value in entry.items():
        if _is_usage_key(key):
            amounts |= _parse_amounts(path, entry, key, pattern)
            continue
        check = CHECKS.get(key)
        if check is None:
            raise InputError(
                "unknown usage key",
                where=_location(path, entry, key),
                key=f"{pattern}.{key}",
                remedy=_suggest_key(key, (*CHECKS, *load_usage_keys())),
            )
        location = _location(path, entry, key)
        if NAMES.get(key, key) in values:
            raise InputError(
                "hours are given twice",
                where=location,
                key=f"{pattern}.{key}",
                remedy=f"give one of {', '.join(HOUR_KEYS)}",
            )
        values[NAMES.get(key, key)] = _check_value(check, value, location, f"{pattern}.{key}")
    usage = ResourceUsage(**values, amounts=amounts)
    if usage.min is not None and usage.max is not None and usage.min > usage.max:
        raise InputError(f"min {usage.min} is above max {usage.max}", where=where, key=pattern)
    _require_work_fields(usage, where, pattern)
    return usage


@cache
def load_usage_keys() -> frozenset[str]:
    """Return the keys of what services bill by use; one that has parts is nested, its parts joined by dots."""
    return frozenset(row["key"] for row in read_packaged_rows("gpufleet.cost", "data/usage_keys.csv"))


def _is_usage_key(key: Any) -> bool:
    return any(key in (known, known.partition(".")[0]) for known in load_usage_keys())


def _parse_amounts(path: Path, entry: Any, key: str, pattern: str) -> dict[str, Decimal]:
    """Return the amounts of one key, or of the keys nested under it."""
    value = entry[key]
    if key in load_usage_keys():
        where = _location(path, entry, key)
        return {key: _check_value(_parse_amount, value, where, f"{pattern}.{key}")}
    siblings = sorted(known for known in load_usage_keys() if known.startswith(f"{key}."))
    if not isinstance(value, Mapping):
        where, remedy = _location(path, entry, key), f"known: {', '.join(siblings)}"
        raise InputError("not a mapping", where=where, key=f"{pattern}.{key}", remedy=remedy)
    amounts = {}
    for nested, amount in value.items():
        name, where = f"{key}.{nested}", _location(path, value, nested)
        if name not in load_usage_keys():
            remedy = _suggest_key(name, siblings)
            raise InputError("unknown usage key", where=where, key=f"{pattern}.{name}", remedy=remedy)
        amounts[name] = _check_value(_parse_amount, amount, where, f"{pattern}.{name}")
    return amounts


def _require_work_fields(usage: ResourceUsage, where: str, pattern: str) -> None:
    """Raise InputError unless all fields for the cost of a useful spot hour are given."""
    values = {name: getattr(usage, name) for name in (*WORK_FIELDS, *OPTIONAL_WORK_FIELDS)}
    missing = [name for name in WORK_FIELDS if values[name] is None]
    if missing and any(value is not None for value in values.values()):
        raise InputError(
            "not all fields of interruptions are given", where=where, key=pattern, remedy=f"add {missing[0]}"
        )


def _check_value(check: Callable[[Any], Decimal], value: Any, where: str, key: str) -> Decimal:
    try:
        return check(value)
    except ValueError as error:
        raise InputError(f"{shorten_repr(value)} is not {error}", where=where, key=key) from None


def _require_mapping(value: Any, where: str, subject: str) -> None:
    if not isinstance(value, Mapping):
        raise InputError(
            f"{subject} is not a mapping", where=where, remedy=f"sections: {', '.join(SECTIONS)}"
        )


def _parse_amount(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError("a number of 0 or more")
    return _check_maximum(to_decimal(value))


def _parse_count(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a whole number of 0 or more")
    return _check_maximum(to_decimal(value))


def _check_maximum(amount: Decimal) -> Decimal:
    if amount > MAX_AMOUNT:
        raise ValueError(f"at most {MAX_AMOUNT:,}")
    return amount


def _parse_minutes(value: Any) -> Decimal:
    minutes = _parse_amount(value)
    if not minutes:
        raise ValueError("more than 0 minutes")
    return minutes


def _parse_share(value: Any) -> Decimal:
    share = _parse_amount(value)
    if share > 1:
        raise ValueError("a share of 0 to 1")
    return share


def _parse_hours(value: Any) -> Decimal:
    hours = _parse_amount(value)
    if hours > HOURS_PER_MONTH:
        raise ValueError(f"within the {HOURS_PER_MONTH} hours of a month")
    return hours


def _parse_schedule(value: Any) -> Decimal:
    if not isinstance(value, str):
        raise ValueError("days and hours, such as weekdays 8-18")  # noqa: TRY004 - reported like the others
    return parse_schedule_hours_per_month(value)


WORK_FIELDS = (
    "interruptions_per_month",
    "checkpoint_minutes",
    "restart_minutes",
)  # all or none
OPTIONAL_WORK_FIELDS = ("checkpoint_cost_minutes", "fallback_share")
SECTIONS = ("overlap_hours", "resources", "types")
INFRACOST_SECTIONS = ("version", "resource_usage", "resource_type_default_usage")
INFRACOST_REMEDY = "Infracost's section: give its keys under resources, by the names of your Pulumi resources"
NAMES = {"schedule": "hours_per_month", "hours": "hours_per_month"}
HOUR_KEYS = ("hours_per_month", *NAMES)
CHECKS: dict[str, Callable[[Any], Decimal]] = {
    "hours_per_month": _parse_hours,
    "hours": lambda value: _parse_schedule(value) if isinstance(value, str) else _parse_hours(value),
    "schedule": _parse_schedule,
    "desired": _parse_count,
    "min": _parse_count,
    "max": _parse_count,
    **{name.name: _parse_amount for name in fields(ResourceUsage) if name.name.endswith(("_gib", "_units"))},
    "interruptions_per_month": _parse_amount,
    "checkpoint_minutes": _parse_minutes,
    "restart_minutes": _parse_amount,
    "checkpoint_cost_minutes": _parse_amount,
    "fallback_share": _parse_share,
}


def _suggest_key(key: Any, known: Any) -> str:
    close = get_close_matches(str(key), known, n=1, cutoff=0.4)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"


def _line_number(data: Any, key: Any) -> int:
    lines = getattr(data, "lc", None)
    return int(lines.key(key)[0]) + 1 if lines else 1


def _location(path: Path, data: Any, key: Any) -> str:
    return f"{path}:{_line_number(data, key)}"
