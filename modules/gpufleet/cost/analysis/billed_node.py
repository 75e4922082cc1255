"""What was billed for each registered node, for machines that the registry does not know, and for none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from gpufleet.cost.analysis.bill_period import BillPeriod, count_hours
from gpufleet.cost.inputs.bill_row import USAGE, BilledCharge
from gpufleet.cost.money import ZERO
from gpufleet.cost.pricing.bill import Charge

MAX_MACHINES = 1000
NODE_TAG, NAME_TAG, POOL_TAG = "gpufleet-node", "name", "gpufleet-pool"
OTHER_MACHINES = "(others)"


@dataclass(frozen=True)
class OutOfUse:
    """A time in which no work could be placed on a node; without an end it still lasts."""

    state: str
    start: datetime
    end: datetime | None = None


@dataclass(frozen=True)
class RegisteredNode:
    """A cloud node as the registry knows it. ``until`` is when it was retired or lost, None if it exists."""

    id: str
    name: str
    cloud: str
    pool: str
    stack: str
    state: str
    instance_id: str
    since: datetime
    until: datetime | None = None
    out_of_use: tuple[OutOfUse, ...] = ()

    def exists_in(self, period: BillPeriod) -> bool:
        """Return whether the node existed in some of a period."""
        return self.since < period.end and (self.until is None or self.until > period.start)


@dataclass
class BilledNode:
    """What was billed for one registered node; ``wasted_usd`` is the part of each state out of use."""

    node: RegisteredNode
    usd: Decimal = ZERO
    hours: Decimal = ZERO
    wasted_usd: dict[str, Decimal] = field(default_factory=dict)

    def add(self, charge: BilledCharge) -> None:
        """Add one row; the part of its time that is out of use is wasted."""
        self.usd += charge.cost
        self.hours += (charge.hours or ZERO) if charge.kind == USAGE else ZERO
        length = count_hours(charge.start, charge.end)
        for each in self.node.out_of_use if length > 0 else ():
            start, end = max(charge.start, each.start), min(charge.end, each.end or charge.end)
            if end > start:
                wasted = charge.cost * count_hours(start, end) / length
                self.wasted_usd[each.state] = self.wasted_usd.get(each.state, ZERO) + wasted


@dataclass
class UnregisteredMachine:
    """A billed machine that the registry does not have. ``is_declared``: the stack has a resource of its name."""

    id: str
    name: str
    pool: str
    cloud: str
    usd: Decimal = ZERO
    hours: Decimal = ZERO
    is_declared: bool = False


@dataclass(frozen=True)
class NodeComparison:
    """The registry beside the bill: billed nodes, machines that it does not have, nodes that nothing is billed for."""

    billed: tuple[BilledNode, ...]
    unregistered: tuple[UnregisteredMachine, ...]
    unbilled: tuple[RegisteredNode, ...]

    @property
    def wasted_usd(self) -> Decimal:
        """Return what was billed for nodes while they were out of use."""
        return sum((usd for each in self.billed for usd in each.wasted_usd.values()), ZERO)

    @property
    def node_counts_by_pool(self) -> dict[str, tuple[int, int]]:
        """Return for each pool how many of its nodes were billed, and how many the registry has."""
        counts: dict[str, tuple[int, int]] = {}
        for node, is_billed in [(each.node, 1) for each in self.billed] + [
            (each, 0) for each in self.unbilled
        ]:
            billed, registered = counts.get(node.pool, (0, 0))
            counts[node.pool] = billed + is_billed, registered + 1
        return counts


class NodeLedger:
    """Sums the rows of a bill by registered node.

    A row belongs to a node by its instance id first, then by the tag gpufleet-node, then by the machine's name.
    """

    def __init__(self, nodes: Iterable[RegisteredNode]) -> None:
        # A live node comes last: of several with one id or name, the rows are the live node's.
        self._nodes = sorted(nodes, key=lambda node: (node.until is None, node.until or node.since))
        self._by_instance = {node.instance_id.lower(): node for node in self._nodes if node.instance_id}
        self._by_name = {node.name.lower(): node for node in self._nodes}
        self._billed: dict[str, BilledNode] = {}
        self._unregistered: dict[str, UnregisteredMachine] = {}

    def add(self, charge: BilledCharge) -> None:
        """Add one row of the stack, or of no stack."""
        node = self._find_node(charge)
        if node is not None:
            self._billed.setdefault(node.id, BilledNode(node)).add(charge)
        elif charge.machine and charge.kind == USAGE:
            self._add_unregistered(charge)

    def _find_node(self, charge: BilledCharge) -> RegisteredNode | None:
        for key in (charge.machine, charge.resource):
            if key and (node := self._by_instance.get(key.lstrip("/").lower())):
                return node
        for name in (charge.tags.get(NODE_TAG), charge.machine, charge.tags.get(NAME_TAG)):
            if name and (node := self._by_name.get(name.lower())):
                return node
        return None

    def _add_unregistered(self, charge: BilledCharge) -> None:
        machines = self._unregistered
        key = charge.machine if charge.machine in machines or len(machines) < MAX_MACHINES else OTHER_MACHINES
        if key not in machines:
            name = charge.tags.get(NODE_TAG) or charge.tags.get(NAME_TAG, "")
            machines[key] = UnregisteredMachine(key, name, charge.tags.get(POOL_TAG, ""), charge.cloud)
        machines[key].usd += charge.cost
        machines[key].hours += charge.hours or ZERO

    def compare(
        self,
        declared: Iterable[Charge],
        stack: str,
        find_period: Callable[[str], BillPeriod],
        clouds: set[str],
    ) -> NodeComparison:
        """Return the comparison with the stack's nodes, as far as the bill has rows of their clouds."""
        from gpufleet.fleet import slugify  # the models of a spec, which other verbs of this room do not need

        names = {name.lower() for charge in declared for name in _list_names(charge) if name}
        for machine in self._unregistered.values():
            machine.is_declared = bool({machine.name.lower(), machine.id} & names)
        stack_tag = slugify(stack)
        unbilled = [
            node
            for node in self._nodes
            if node.id not in self._billed
            and node.stack == stack_tag
            and (node.cloud in clouds or "" in clouds)
            and node.exists_in(find_period(node.cloud))
        ]
        return NodeComparison(
            tuple(sorted(self._billed.values(), key=lambda each: (-each.usd, each.node.name))),
            tuple(sorted(self._unregistered.values(), key=lambda each: (-each.usd, each.id))),
            tuple(sorted(unbilled, key=lambda node: (node.pool, node.name))),
        )


def _list_names(charge: Charge) -> tuple[str, ...]:
    tags = dict(charge.tags)
    return charge.name, tags.get(NODE_TAG, ""), tags.get("Name", "")
