"""How a priced type is written: a generator of parts, with one ``with`` block for each component that bills.

What needs no condition is a row of ``data/charges.csv`` (``charge_table``). Everything else is a pricer::

    @pricer("aws:msk/cluster:Cluster")                               # of the cloud's ``location`` module
    def price_kafka_cluster(cluster: Reader) -> Parts:
        \"\"\"Yield the brokers of a Kafka cluster and their volumes.\"\"\"
        with cluster.of("broker") as broker:                         # "broker" is the component on the bill
            kind = broker.text("brokerNodeGroupInfo.instanceType", "broker type")
            yield broker.instances(f"msk:{kind}", broker.number("numberOfBrokerNodes", "the number of brokers"))
        with cluster.of("tiered_storage") as storage:
            if storage.choice("storageMode", ("LOCAL", "TIERED"), "LOCAL") == "TIERED":
                yield storage.used("msk:tiered_storage", "storage_gb", stored=True)

Inputs are read inside the block of the component that depends on them, again in each block where several do. An input
that is unknown, secret, malformed or required and not set raises ``Unpriced``. The block ends there, the component is
listed with the reason, and the next block goes on: no input makes a bill smaller without a line, and none takes
another component along.

``path`` is dotted (``disks.0.size``), or several that providers use: ``sku.name or skuName``. ``name`` is what a reason
calls the input; a plural ends with its verb: ``its network cards are``. An entry of a list is a reader of its own
(``entries``). Without a default an input is required. ``choice`` is for a text that the pricer compares: a word that it
does not know is as unreadable as a number that is none.

``part`` bills by time: it obeys the hours of the usage file. ``kept`` bills the whole month, such as disks that remain
while a machine is stopped. ``instances`` are machines that a service runs, which commitments may pay; ``machines`` are
those of the cloud itself. Their reader says how they are bought (``bought``) and how many there are (``times``): a part
is then in each of them, for the hours that their tags say too. ``used`` bills an amount of the usage file, ``derived``
one that several keys determine. A part of nothing is None and costs nothing.

``find_number``, ``find_text``, ``find_choice`` and ``find_flag`` return a marker instead of raising: only where what is
unreadable counts as the dearer case. To refuse for another reason: ``raise reader.refuse("no price with replicas")``.
What bills by use that no key of the usage file has: ``raise reader.refuse_use("its log bills by size")``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, partial, wraps
from types import TracebackType
from typing import Any, Self, TypeVar

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.terms import TERMS, PurchaseTerms
from gpufleet.cost.inputs.usage import ResourceUsage
from gpufleet.cost.inputs.values import (
    MAPPING_TYPES,
    MARKER_REASONS,
    Number,
    Text,
    is_list,
    list_if_known,
    parse_input_flag,
    parse_input_number,
    read_input,
    read_reference,
)
from gpufleet.cost.money import HOURS_PER_MONTH, ONE, Range
from gpufleet.cost.pricing.component import (
    Component,
    Components,
    CostComponent,
    UnpricedComponent,
    UsageComponent,
)
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.engine import StateResource, UnreadableValue

GLOBAL = "global"  # the region of what has one price everywhere
MAX_DIGITS = 16  # of a number of bytes: up to petabytes
UNKNOWN_COPIES = Range(Decimal(1), Decimal(2), Decimal(2))
_STEP = re.compile(r'\["([^"]+)"\]|([^.\[\]]+)')
Parts = Iterator[Component | None]
Count = Range | Decimal | int
FindRegion = Callable[[StateResource, ResourceGraph], str]
Value = TypeVar("Value")


class Unpriced(Exception):  # noqa: N818 - a result, not a fault
    """A component has no price: why, its name, and ``use`` if it bills by use only."""


@dataclass(frozen=True)
class Reader:
    """What a resource says about one of its components: its inputs, its usage, where it is and how it is bought.

    ``inputs`` are those of ``source``, which is ``resource`` or one that it refers to. ``prefix`` is of its
    components' names. ``hours`` are those of a month for which parts bill. ``machine_count`` is in how many machines
    each part is, or why that is not known. ``refused`` are the components without a price so far, shared by all
    readers of a resource.
    """

    resource: StateResource
    graph: ResourceGraph
    cloud: str
    region: str
    terms: PurchaseTerms
    usage: ResourceUsage
    source: StateResource
    inputs: Any
    component: str = ""
    prefix: str = ""
    hours: Decimal = HOURS_PER_MONTH
    machine_count: Range | Unpriced = ONE
    refused: Components = field(default_factory=list)

    def of(self, component: str) -> Reader:
        """Return the reader for a component, to be used in a ``with`` block."""
        return replace(self, component=f"{self.prefix}{component}")

    def prefixed(self, prefix: str) -> Reader:
        """Return the reader for one of several pools, whose components have names with its own."""
        return replace(self, prefix=prefix)

    def within(self, region: str) -> Reader:
        """Return the reader for what is priced in another region."""
        return replace(self, region=region)

    def inside(self, path: str, name: str = "") -> Reader:
        """Return the reader of the inputs at a path; those with a name must be readable."""
        inputs = self._find(path, _parse_mapping)
        return replace(self, inputs=self._required(inputs, name, {}) if name else inputs)

    def reading(self, resource: StateResource) -> Reader:
        """Return the reader of the inputs of another resource, which this one refers to."""
        return replace(self, source=resource, inputs=resource.inputs)

    def find_resource(self, path: str, *types: str) -> StateResource | None:
        """Return the resource of these types that an input of ``source`` refers to."""
        found = (
            self.graph.find_referenced_resource(self.source, _steps(each), *types)
            for each in path.split(" or ")
        )
        return next(filter(None, found), None)

    def find_referrers(self, path: str, *types: str) -> list[StateResource]:
        """Return the resources of these types with an input that refers to ``source``."""
        return self.graph.find_referring_resources(self.source, _steps(path), *types)

    def bought(
        self,
        *templates: StateResource | None,
        spot: bool | UnreadableValue | None = None,
        max_price: Number = None,
    ) -> Reader:
        """Return the reader of machines that are bought as the tags say, also of templates; ``spot`` has priority."""
        terms = self.graph.purchase_terms_of(self.resource, *templates, spot=spot)
        known_price = max_price if isinstance(max_price, Decimal) else None
        terms = replace(terms, max_price=known_price)
        return replace(self, terms=terms, hours=terms.billed_hours_per_month)

    def all_month(self) -> Reader:
        """Return the reader for what bills the whole month, also while what it belongs to is stopped."""
        return replace(self, hours=HOURS_PER_MONTH)

    def times(self, find_count: Callable[[], Range]) -> Reader:
        """Return the reader for what each of several machines has: without their number nothing has a price."""
        try:
            return replace(self, machine_count=find_count())
        except Unpriced as unpriced:
            return replace(self, machine_count=unpriced)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """List the component if it has no price, and go on after the block."""
        if isinstance(error, Unpriced):
            reason, component, *use = error.args
            self.refused.append(UnpricedComponent(reason, component, is_by_use=bool(use)))
        return isinstance(error, Unpriced)

    def refuse(self, reason: str) -> Unpriced:
        """Return what to raise where the component has no price."""
        return Unpriced(reason, self.component)

    def refuse_use(self, reason: str) -> Unpriced:
        """Return what to raise where the component bills by use only, which nothing here declares."""
        return Unpriced(reason, self.component, "use")

    def text(self, path: str, name: str = "", default: str | None = None) -> str:
        """Return a text; of a number its digits."""
        return self._required(self._find(path, _parse_text), name or path, default)

    def choice(self, path: str, choices: Iterable[str], default: str | None = None, name: str = "") -> str:
        """Return which of the texts an input is, in the spelling of ``choices``; capitals do not matter."""
        return self._required(self.find_choice(path, choices), name or path, default)

    def number(self, path: str, name: str = "", default: Decimal | int | None = None) -> Decimal:
        """Return a number that is not negative."""
        number = self.find_number(path)
        return self._required(number, name or path, None if default is None else Decimal(default))

    def bytes(self, path: str, name: str) -> Decimal:
        """Return a number of bytes, which may be above the limit of other numbers."""
        digits = self.text(path, name)
        if not digits.isdecimal() or len(digits) > MAX_DIGITS:
            raise self.refuse(_describe(name, MARKER_REASONS[UnreadableValue.UNKNOWN]))
        return Decimal(digits)

    def find_number(self, path: str) -> Number:
        """Return a number, None if it is not set, a marker if it cannot be read: another input may be a bound of it."""
        return self._find(path, parse_input_number) if path else None

    def find_count(self, path: str) -> Number:
        """Return a number, or how long a list is; None if it is not set, a marker if it cannot be read."""
        return self._find(path, _parse_count)

    def find_flag(self, path: str) -> bool | UnreadableValue | None:
        """Return whether an input is true, None if it is not set, a marker if it cannot be read."""
        return self._find(path, parse_input_flag)

    def find_text(self, path: str) -> Text:
        """Return a text, None if it is not set, a marker if it cannot be read."""
        return self._find(path, _parse_text)

    def find_choice(self, path: str, choices: Iterable[str]) -> Text:
        """Return which of the texts an input is, None if it is not set, a marker if it is none of them."""
        text = self.find_text(path)
        if not isinstance(text, str):
            return text
        return next((each for each in choices if each.lower() == text.lower()), UnreadableValue.UNKNOWN)

    def flag(self, path: str, name: str = "", *, default: bool = False) -> bool:
        """Return whether an input is true."""
        return self._required(self.find_flag(path), name or path, default)

    def has(self, path: str) -> bool:
        """Return whether an input is set, to a known value or not."""
        return self._find(path, lambda value: value) is not None

    def copies(self, path: str) -> Range:
        """Return one, two if the input is true, either if it cannot be read."""
        flag = self.find_flag(path)
        if isinstance(flag, UnreadableValue):
            return UNKNOWN_COPIES
        return Range.from_exact_value(2 if flag else 1)

    def count(self, path: str, name: str = "", default: Decimal | int | None = None) -> Decimal:
        """Return a number, or how long a list is."""
        count = self.find_count(path)
        return self._required(count, name or path, None if default is None else Decimal(default))

    def up_to(self, count: Range, path: str) -> Range:
        """Return a count that an autoscaler may raise to the number at ``path``, if that is set."""
        if not self.has(path):
            return count
        return Range.spanning(count.low, count.expected, self.number(path, "its largest size"))

    def group_size(self, path: str = "", maximum: str = "", *, default: int | None = None) -> Range:
        """Return how many machines a group has, up to the number at ``maximum``; the usage file may say otherwise."""
        number = self.find_number(path)
        least = Decimal(default) if number is None and default is not None else number
        declared = group_size_range(least, None, self.find_number(maximum))
        return self.resize(declared, "its number of machines")

    def resize(self, declared: Range | None, name: str) -> Range:
        """Return a group's size as the usage file has it, else as declared."""
        return self.known(self.graph.resolve_group_size(self.resource, declared), name)

    def known(self, value: Value | None, name: str) -> Value:
        """Return what was computed of inputs that may be unreadable; None is not known."""
        return self._required(UnreadableValue.UNKNOWN if value is None else value, name)

    def entries(self, path: str, name: str = "") -> list[Reader]:
        """Return a reader for each entry of a list; one that is a mapping without its list is one entry."""
        entries = self._required(self._find(path, _parse_entries), name or path, [])
        return [replace(self, inputs=each) for each in entries]

    def part(
        self, item: str, count: Count = ONE, size: Decimal = Decimal(1), note: str = ""
    ) -> CostComponent | None:
        """Return ``count`` parts that bill by time, of ``size`` price units each."""
        part = self._make(item, count, size, PurchaseTerms(pool=self.terms.pool), self.hours)
        return part and replace(part, note=note)

    def kept(self, item: str, count: Count = ONE, size: Decimal = Decimal(1)) -> CostComponent | None:
        """Return parts that bill the whole month, also while what they belong to is stopped."""
        return self.all_month().part(item, count, size)

    def instances(self, item: str, count: Count = ONE) -> CostComponent | None:
        """Return machines that the service runs; tags and the usage file set their purchase and hours."""
        terms = self.terms if self.terms.purchase in TERMS else replace(self.terms, purchase="on_demand")
        return self._make(item, count, Decimal(1), terms, terms.billed_hours_per_month)

    def machines(
        self, item: str, count: Range = ONE, size: Decimal = Decimal(1), *, is_part: bool = False
    ) -> CostComponent | None:
        """Return machines of the cloud itself.

        ``is_part``: it is ``size`` cards in each of the machines, which are bought with them.
        """
        part = self._make(item, count, size, self.terms, self.terms.billed_hours_per_month)
        return part and replace(part, is_part=is_part)

    def used(
        self, item: str, key: str, *, stored: bool = False, listed: bool = True
    ) -> UsageComponent | None:
        """Return what bills by the amount that the usage file has for ``key``, a key of ``data/usage_keys.csv``.

        ``stored``: the amount is kept during the month. Without an amount only what is ``listed`` is on the bill.
        """
        amount = self.usage.amounts.get(key)
        if amount is None and not listed:
            return None
        return replace(self.derived(item, key, amount), is_stored=stored)

    def derived(self, item: str, key: str, amount: Decimal | None) -> UsageComponent:
        """Return what bills by an amount that several keys determine; without it ``key`` is the next one to give."""
        return UsageComponent(
            self.component, item, key, self.cloud, self.region, amount, pool=self.terms.pool
        )

    def _make(
        self, item: str, count: Count, size: Decimal, terms: PurchaseTerms, hours: Decimal
    ) -> CostComponent | None:
        counts = count if isinstance(count, Range) else Range.from_exact_value(count)
        if not counts.high or not size:
            return None
        if isinstance(self.machine_count, Unpriced):
            raise self.refuse(self.machine_count.args[0])
        counts *= self.machine_count
        return CostComponent(
            self.component, (item,), self.cloud, self.region, counts, size, terms, hours, is_part=True
        )

    def _find(
        self, paths: str, parse: Callable[[Any], Value | UnreadableValue | None]
    ) -> Value | UnreadableValue | None:
        """Return the first value that is set and can be read, else why none is."""
        found = [parse(read_input(self.inputs, *_steps(path))) for path in paths.split(" or ")]
        is_set = [each for each in found if each is not None]
        return next(
            (each for each in is_set if not isinstance(each, UnreadableValue)), is_set[0] if is_set else None
        )

    def _required(
        self, value: Value | UnreadableValue | None, name: str, default: Value | None = None
    ) -> Value:
        known = default if value is None else value
        if known is None:
            raise self.refuse(_describe(name, "not set"))
        if isinstance(known, UnreadableValue):
            raise self.refuse(_describe(name, MARKER_REASONS[known]))
        return known


class PricerRegistry:
    """The decorator of a cloud's pricers: it gives a generator of parts the reader of a resource of these types."""

    def __init__(self, cloud: str, find_region: FindRegion) -> None:
        self.cloud, self.find_region = cloud, find_region
        self.pricers: dict[str, Pricer] = {}  # by resource type

    def __call__(self, *types: str) -> Callable[[Callable[[Reader], Parts]], Pricer]:
        def register(list_parts: Callable[[Reader], Parts]) -> Pricer:
            pricer = wraps(list_parts)(partial(self._price, list_parts))
            self.pricers |= dict.fromkeys(types, pricer)
            return pricer

        return register

    def _price(
        self, list_parts: Callable[[Reader], Parts], resource: StateResource, graph: ResourceGraph
    ) -> Components:
        terms, usage = graph.purchase_terms_of(resource), graph.usage_of_resource(resource)
        region = self.find_region(resource, graph)
        hours = HOURS_PER_MONTH if usage.hours_per_month is None else usage.hours_per_month
        reader = Reader(
            resource, graph, self.cloud, region, terms, usage, resource, resource.inputs, hours=hours
        )
        parts: Components = []
        with reader:
            parts += filter(None, list_parts(reader))
        return [*parts, *reader.refused]


@cache
def _steps(path: str) -> tuple[str | int, ...]:
    """Return the steps of a path, in which ``["a.b"]`` is one with a dot, as in Pulumi's property paths."""
    steps = (quoted or plain for quoted, plain in _STEP.findall(path))
    return tuple(int(step) if step.isdigit() else step for step in steps)


def _describe(name: str, reason: str) -> str:
    return f"{name} {reason}" if name.endswith(" are") else f"{name} is {reason}"


def _parse_mapping(value: Any) -> Any:
    is_readable = value is None or isinstance(value, (*MAPPING_TYPES, UnreadableValue))
    return value if is_readable else UnreadableValue.UNKNOWN


def _parse_text(value: Any) -> Text:
    """Return a text; of a whole number without the point that a state may write it with."""
    return read_reference(int(value) if isinstance(value, float) and value.is_integer() else value)


def _parse_count(value: Any) -> Number:
    return Decimal(len(value)) if is_list(value) else parse_input_number(value)


def _parse_entries(value: Any) -> list[Any] | UnreadableValue | None:
    if value is None or isinstance(value, MAPPING_TYPES) or is_list(value):
        return None if value is None else list_if_known(value)
    return value if isinstance(value, UnreadableValue) else UnreadableValue.UNKNOWN
