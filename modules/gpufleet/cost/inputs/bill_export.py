"""Read what a cloud billed: FOCUS exports, Azure's actual-cost exports and Google's billing exports.

* FOCUS 1.0 to 1.2, CSV: AWS Data Exports, Azure Cost Management, and other providers;
* Azure "Cost and usage details (actual)", CSV: Enterprise Agreement and Microsoft Customer Agreement columns;
* Google Cloud's standard or detailed usage export, JSON lines of the BigQuery table.

Each may be gzip. Rows are read one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpufleet.boundary import (
    CsvRow,
    DocumentLimits,
    decode_json,
    is_json_file,
    make_printable,
    read_csv_file_rows,
    read_json_file_rows,
    shorten_repr,
)
from gpufleet.cost.money import ZERO
from gpufleet.errors import InputError

FOCUS_COLUMNS = ("BilledCost", "BillingCurrency", "ChargeCategory", "ChargePeriodStart", "ChargePeriodEnd")
AZURE_COLUMNS = ("costinbillingcurrency", "date", "quantity")
AZURE_PAIR = re.compile(r'"([^"]*)"\s*:\s*"([^"]*)"')
TAG_LIMITS = DocumentLimits(bytes=256 * 1024, depth=8, values=5000)
DATE_FORMS = ("%m/%d/%Y", "%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M:%S.%f UTC")  # others are ISO 8601
CACHED_TEXTS = 4096  # rows of one resource repeat their times and tags
HOUR_UNITS = re.compile(r"(?i)(1 )?hours?|(1 )?h(rs?)?")
MAX_EXPONENT = 30  # of an amount: a hostile 1E+999999 would take all memory as digits
PROVIDERS = (("aws", "aws"), ("amazon", "aws"), ("microsoft", "azure"), ("azure", "azure"), ("google", "gcp"))
COMPUTE = ("Compute", "Virtual Machines", "Virtual Machines Licenses", "Compute Engine")


@dataclass(frozen=True)
class BilledCharge:
    """One row of an export. ``hours`` are of machines, None if the row counts something else."""

    cost: Decimal
    currency: str
    start: datetime
    end: datetime
    service: str
    category: str = "Usage"
    resource: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    hours: Decimal | None = None
    cloud: str = ""  # empty for a provider that is not one of ours


def stream_billed_charges(path: Path) -> Iterator[BilledCharge]:
    """Yield the rows of an export; its form is recognised by its columns."""
    if is_json_file(path):
        for place, record in read_json_file_rows(path):
            yield _parse_google_record(record, place)
        return
    parse: Callable[[CsvRow], BilledCharge] | None = None
    for row in read_csv_file_rows(path):
        parse = parse or _find_parser(row, path)
        yield parse(row)


def _find_parser(row: CsvRow, path: Path) -> Callable[[CsvRow], BilledCharge]:
    if all(column in row for column in FOCUS_COLUMNS):
        return _parse_focus_row
    lower = {column.lower() for column in row}
    if all(column in lower for column in AZURE_COLUMNS):
        return _parse_azure_row
    raise InputError(
        "is not an export of costs that is known",
        where=f"{make_printable(path)}:1",
        remedy="give FOCUS CSV, Azure's actual-cost CSV, or JSON lines of Google's billing export",
    )


def _parse_focus_row(row: CsvRow) -> BilledCharge:
    unit = row.get("ConsumedUnit") or row.get("PricingUnit") or ""
    quantity = row.get("ConsumedQuantity") or row.get("PricingQuantity") or ""
    is_machine = row.get("ServiceCategory") == "Compute" and row["ChargeCategory"] == "Usage"
    # Effective cost has what a commitment pays for in the usage; its purchase has none of it.
    cost = row.get("EffectiveCost") or row["BilledCost"]
    return BilledCharge(
        _parse_amount(cost, row.where, "EffectiveCost"),
        row["BillingCurrency"],
        _parse_time(row["ChargePeriodStart"], row.where, "ChargePeriodStart"),
        _parse_time(row["ChargePeriodEnd"], row.where, "ChargePeriodEnd"),
        row.get("ServiceName", ""),
        row["ChargeCategory"],
        row.get("ResourceId", ""),
        _read_tags(row.get("Tags", ""), row.where),
        _parse_amount(quantity, row.where, "ConsumedQuantity")
        if is_machine and quantity and HOUR_UNITS.fullmatch(unit)
        else None,
        _find_cloud(row.get("ProviderName", "")),
    )


def _find_cloud(provider: str) -> str:
    """Return our name of a provider, empty if it is another one."""
    name = provider.lower()
    return next((cloud for start, cloud in PROVIDERS if name.startswith(start)), "")


def _parse_azure_row(row: CsvRow) -> BilledCharge:
    cells = {column.lower(): cell for column, cell in row.items()}
    start = _parse_time(cells["date"], row.where, "Date")
    service, unit = cells.get("metercategory", ""), cells.get("unitofmeasure", "")
    is_machine = service in COMPUTE and HOUR_UNITS.fullmatch(unit) is not None
    return BilledCharge(
        _parse_amount(cells["costinbillingcurrency"], row.where, "CostInBillingCurrency"),
        cells.get("billingcurrency") or cells.get("billingcurrencycode", ""),
        start,
        start.replace(hour=23, minute=59, second=59),
        service,
        cells.get("chargetype") or "Usage",
        cells.get("resourceid", ""),
        _read_tags(cells.get("tags", ""), row.where),
        _parse_amount(cells["quantity"], row.where, "Quantity") if is_machine else None,
        "azure",
    )


def _parse_google_record(record: Mapping[str, Any], place: str) -> BilledCharge:
    reductions = record.get("credits") or []
    if "cost" not in record or not isinstance(reductions, list):
        raise InputError("is not a row of Google's billing export", where=place, key="cost")
    amounts = [each.get("amount") for each in reductions if isinstance(each, Mapping)]
    cost = sum(
        (_parse_amount(each, place, "credits") for each in amounts),
        _parse_amount(record["cost"], place, "cost"),
    )
    labels = record.get("labels") or []
    tags = {
        _normalize_tag(str(pair.get("key"))): str(pair.get("value"))
        for pair in (labels if isinstance(labels, list) else [])
        if isinstance(pair, Mapping)
    }
    return BilledCharge(
        cost,
        str(record.get("currency") or ""),
        _parse_time(record.get("usage_start_time"), place, "usage_start_time"),
        _parse_time(record.get("usage_end_time"), place, "usage_end_time"),
        _read_text(record, "service", "description"),
        str(record.get("cost_type") or "Usage"),
        _read_text(record, "resource", "global_name"),
        tags,
        None,  # Google bills cores and memory by themselves: no hours of machines
        "gcp",
    )


def _read_text(record: Mapping[str, Any], key: str, inner_key: str) -> str:
    inner = record.get(key)
    return str(inner.get(inner_key) or "") if isinstance(inner, Mapping) else ""


def _read_tags(text: str, place: str) -> Mapping[str, str]:
    """Return a row's tags; an error names the row."""
    try:
        return _parse_tags(text)
    except InputError as error:
        raise InputError(error.problem, where=place, key="Tags") from None


@lru_cache(maxsize=CACHED_TEXTS)
def _parse_tags(text: str) -> Mapping[str, str]:
    """Return the tags of a JSON object, or of Azure's pairs without braces."""
    if not text or text in {"{}", "NULL"}:
        return {}
    if not text.lstrip().startswith("{"):
        return {_normalize_tag(key): value for key, value in AZURE_PAIR.findall(text)}
    tags = decode_json(text, "Tags", TAG_LIMITS)
    if not isinstance(tags, dict):
        raise InputError("is not a JSON object")
    return {_normalize_tag(key): str(value) for key, value in tags.items()}


def _normalize_tag(key: str) -> str:
    """Return a tag's key without the prefix that AWS adds, in our spelling."""
    return key.removeprefix("user:").removeprefix("user_").replace("_", "-").lower()


def _parse_amount(value: Any, place: str, key: str) -> Decimal:
    if value is None or value == "":
        return ZERO
    if not isinstance(value, str | int | float):
        raise InputError(f"{shorten_repr(value)} is not an amount", where=place, key=key)
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or abs(amount.adjusted()) > MAX_EXPONENT:
        raise InputError(f"{shorten_repr(str(value))} is not an amount", where=place, key=key)
    return amount


def _parse_time(value: Any, place: str, key: str) -> datetime:
    moment = _find_moment(str(value or ""))
    if moment is None:
        raise InputError(f"{shorten_repr(str(value))} is not a time", where=place, key=key)
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
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
