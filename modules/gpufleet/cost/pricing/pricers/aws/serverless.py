"""Lambda functions by calls and their length, and DynamoDB tables by capacity or by requests."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.inputs.usage import ResourceUsage
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

FUNCTION = "aws:lambda/function:Function"
MEMORY = ("memorySize", "memory size", 128)  # the default: the provider's documentation
MIB_PER_GIB, MS_PER_SECOND = Decimal(1024), Decimal(1000)
INCLUDED_DISK_MIB = 512
BILLING_MODES = ("PROVISIONED", "PAY_PER_REQUEST")
TABLE_CLASSES = ("STANDARD", "STANDARD_INFREQUENT_ACCESS")
TABLE_USAGE = (  # component, item, usage key, stored, listed without an amount
    ("storage", "dynamodb:storage", "storage_gb", True, True),
    ("backups", "dynamodb:backup", "on_demand_backup_storage_gb", True, False),
    ("point_in_time_recovery", "dynamodb:point_in_time_recovery", "pitr_backup_storage_gb", True, False),
    ("restore", "dynamodb:restore", "monthly_data_restored_gb", False, False),
    ("streams", "dynamodb:stream_read", "monthly_streams_read_request_units", False, False),
)


@pricer("aws:lambda/function:Function")
def price_lambda_function(function: Reader) -> Parts:
    """Yield the calls of a function, and the memory and the disk that they hold while they run."""
    seconds = _find_run_seconds(function.usage)
    yield function.of("requests").used("lambda:request", "monthly_requests")
    with function.of("duration") as duration:
        gib = duration.number(*MEMORY) / MIB_PER_GIB
        item = f"lambda:{_find_platform(duration)}:gib_second"
        yield duration.derived(item, "request_duration_ms", None if seconds is None else seconds * gib)
    with function.of("disk") as disk:
        beyond = disk.number("ephemeralStorage.size", "its disk", INCLUDED_DISK_MIB) - INCLUDED_DISK_MIB
        if beyond > 0 and seconds is not None:
            amount = seconds * beyond / MIB_PER_GIB
            yield disk.derived("lambda:disk_gib_second", "request_duration_ms", amount)


@pricer("aws:lambda/provisionedConcurrencyConfig:ProvisionedConcurrencyConfig")
def price_provisioned_concurrency(concurrency: Reader) -> Parts:
    """Yield the memory that instances of a function hold while they wait for calls."""
    with concurrency.of("concurrency") as part:
        owner = part.find_resource("functionName", FUNCTION)
        if owner is None:
            raise part.refuse("its function is not in this stack")
        function = part.reading(owner)
        count = part.number("provisionedConcurrentExecutions", "the number of instances")
        item = f"lambda:{_find_platform(function)}:provisioned_concurrency"
        yield part.part(item, count, function.number(*MEMORY) / MIB_PER_GIB)


def _find_platform(function: Reader) -> str:
    """Return the architecture as price lists name it."""
    name = function.choice("architectures.0", ("arm64", "x86_64"), "x86_64", "its architecture")
    return "arm" if name == "arm64" else "x86"


def _find_run_seconds(usage: ResourceUsage) -> Decimal | None:
    calls, length_ms = usage.amounts.get("monthly_requests"), usage.amounts.get("request_duration_ms")
    return None if calls is None or length_ms is None else calls * length_ms / MS_PER_SECOND


@pricer("aws:dynamodb/table:Table")
def price_dynamo_table(table: Reader) -> Parts:
    """Yield the capacity of a table and its indices, or its requests, and what it stores."""
    with table.of("capacity") as capacity:
        mode = capacity.choice("billingMode", BILLING_MODES, "PROVISIONED", "billing mode")
        yield from _list_requests(table) if mode == "PAY_PER_REQUEST" else _list_capacities(table)
    with table.of("replicas") as replicas:
        if count := len(replicas.entries("replicas", "the list of its replicas")):
            reason = f"{count} replicas bill the writes and the storage again, in their regions"
            raise replicas.refuse(reason)
    for component, item, key, is_stored, is_listed in TABLE_USAGE:
        with table.of(component) as part:
            is_recovery = component == "point_in_time_recovery" and part.flag("pointInTimeRecovery.enabled")
            name = f"{item}{_find_suffix(part)}" if component == "storage" else item
            yield part.used(name, key, stored=is_stored, listed=is_listed or is_recovery)


def _list_requests(table: Reader) -> Parts:
    for kind in ("write", "read"):
        with table.of(f"{kind}s") as requests:
            item = f"dynamodb:{kind}_request{_find_suffix(requests)}"
            yield requests.used(item, f"monthly_{kind}_request_units")


def _list_capacities(table: Reader) -> Parts:
    """Yield the reads and writes of a table and of its global indices."""
    owners = [table]
    with table.of("index_capacity") as indices:
        owners += indices.entries("globalSecondaryIndexes", "the capacity of its indices")
    for index, owner in enumerate(owners):
        for kind in ("read", "write"):
            with owner.of(f"{kind}_capacity:{index}" if index else f"{kind}_capacity") as capacity:
                number = capacity.number(f"{kind}Capacity", f"{kind} capacity", 0)
                suffix = _find_suffix(table.of(capacity.component))
                yield capacity.part(f"dynamodb:{kind}_capacity{suffix}", number)


def _find_suffix(table: Reader) -> str:
    """Return what the items of a table of infrequent access end with."""
    kind = table.choice("tableClass", TABLE_CLASSES, "STANDARD", "its class")
    return "" if kind == "STANDARD" else ":infrequent_access"
