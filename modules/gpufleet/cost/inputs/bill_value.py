"""Single values of a billing export: amounts, moments, tags, machines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from gpufleet.boundary import DocumentLimits, decode_json, shorten_repr
from gpufleet.cost.money import ZERO
from gpufleet.errors import InputError

AZURE_PAIR = re.compile(r'"([^"]*)"\s*:\s*"([^"]*)"')
TAG_LIMITS = DocumentLimits(bytes=256 * 1024, depth=8, values=5000)
DATE_FORMS = ("%m/%d/%Y", "%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M:%S.%f UTC")  # others are ISO 8601
CACHED_TEXTS = 4096  # rows of one resource repeat their times and tags
# No bill has others, and a period's months need the year after its last.
BILLED_YEARS = range(2000, 3000)
LONGEST_CACHED = 4096  # characters: hostile texts would fill the memory
LONGEST_RESOURCE = 2048  # characters of a resource id that can be a machine's
HOUR_UNITS = re.compile(r"(?i)(1 )?hours?|(1 )?h(rs?)?")
MAX_EXPONENT = 30  # of an amount: a hostile 1E+999999 would take all memory as digits
PROVIDERS = (("aws", "aws"), ("amazon", "aws"), ("microsoft", "azure"), ("azure", "azure"), ("google", "gcp"))
AWS_MACHINE = re.compile(r"(?:arn:[^ ]+:instance/)?(i-[0-9a-z]+)")
AZURE_MACHINE = re.compile(
    r"(?i)/.*/microsoft\.compute/virtualmachine(?:s|scalesets)/([^/]+)(?:/virtualmachines/([^/]+))?/?"
)
GOOGLE_MACHINE = re.compile(
    r"(?i)(?:https:)?(?://)?compute\.googleapis\.com/(?:compute/v1/)?projects/[^/]+/zones/[^/]+/instances/([^/]+)/?"
)


def parse_amount(value: Any, place: str, key: str) -> Decimal:
    """Return an amount, zero for an empty cell."""
    if value is None or value == "":
        return ZERO
    if not isinstance(value, str | int | float | Decimal):
        raise InputError(f"{shorten_repr(value)} is not an amount", where=place, key=key)
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or abs(amount.adjusted()) > MAX_EXPONENT:
        raise InputError(f"{shorten_repr(str(value))} is not an amount", where=place, key=key)
    return amount


def parse_time(value: Any, place: str, key: str) -> datetime:
    """Return a moment in UTC; a text without a zone is UTC."""
    moment = _find_moment(str(value or ""))
    if moment is None or moment.year not in BILLED_YEARS:
        raise InputError(f"{shorten_repr(str(value))} is not a time of a bill", where=place, key=key)
    return moment


@lru_cache(maxsize=CACHED_TEXTS)
def _find_moment(text: str) -> datetime | None:
    """Return a moment in UTC, None for another text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        for form in DATE_FORMS:
            with suppress(ValueError):
                return datetime.strptime(text, form).replace(tzinfo=UTC)
        return None
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:  # the first or last day that exists, in another zone
        return None


def read_tags(text: str, place: str) -> Mapping[str, str]:
    """Return a row's tags; an error names the row."""
    try:
        return _parse_tags(text) if len(text) <= LONGEST_CACHED else _parse_tags.__wrapped__(text)
    except InputError as error:
        raise InputError(error.problem, where=place, key="Tags") from None


@lru_cache(maxsize=CACHED_TEXTS)
def _parse_tags(text: str) -> Mapping[str, str]:
    """Return the tags of a JSON object, of a list of keys with values, or of Azure's pairs without braces.

    A key without a value is left out: Parquet has every key of the file in each row.
    """
    if not text or text in {"{}", "[]", "NULL"}:
        return {}
    if not text.lstrip().startswith(("{", "[")):
        return {normalize_tag(key): value for key, value in AZURE_PAIR.findall(text)}
    tags = decode_json(text, "Tags", TAG_LIMITS)
    if isinstance(tags, list):
        return read_labels(tags)
    if not isinstance(tags, dict):
        raise InputError("is not a JSON object")
    return {normalize_tag(key): str(value) for key, value in tags.items() if value is not None}


def read_labels(labels: Any) -> dict[str, str]:
    """Return Google's list of keys with values as tags."""
    return {
        normalize_tag(str(pair.get("key"))): str(pair.get("value"))
        for pair in (labels if isinstance(labels, list) else [])
        if isinstance(pair, Mapping) and pair.get("value") is not None
    }


def normalize_tag(key: str) -> str:
    """Return a tag's key without the prefixes that AWS adds, in our spelling."""
    key = key.removeprefix("resourceTags/").removeprefix("user:").removeprefix("user_")
    return key.replace("_", "-").lower()


def find_cloud(provider: str) -> str:
    """Return our name of a provider, empty if it is another one."""
    name = provider.lower()
    return next((cloud for start, cloud in PROVIDERS if name.startswith(start)), "")


def find_machine(resource: str) -> str:
    """Return the id or name of the machine that a resource id is of, empty for another resource."""
    return _find_machine(resource) if len(resource) <= LONGEST_RESOURCE else ""


@lru_cache(maxsize=CACHED_TEXTS)
def _find_machine(resource: str) -> str:
    if match := AWS_MACHINE.fullmatch(resource):
        return match[1]
    match = GOOGLE_MACHINE.fullmatch(resource) or AZURE_MACHINE.fullmatch(resource)
    return "_".join(filter(None, match.groups())).lower() if match else ""


def is_hour_unit(unit: str) -> bool:
    """Return whether a unit is an hour, in any cloud's spelling."""
    return HOUR_UNITS.fullmatch(unit) is not None
