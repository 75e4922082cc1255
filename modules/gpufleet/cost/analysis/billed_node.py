"""What was billed for each registered node, for machines that the registry does not know, and for none."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from gpufleet.cost.analysis.bill_period import BillPeriod, count_hours
from gpufleet.cost.inputs.bill_row import USAGE, BilledCharge
from gpufleet.cost.money import ZERO
from gpufleet.cost.pricing.bill import Charge

MAX_MACHINES = 1000
MAX_ACCOUNTS = 20  # of one name
LONGEST_ID = 1000
# The Google project, the Azure subscription or the AWS account in a resource's id.
ACCOUNT = re.compile(r"(?i)(?:^|/)(?:projects|subscriptions)/([^/]+)/|^arn:[^:]*:[^:]*:[^:]*:([^:]+):")
NODE_TAG, NAME_TAG, POOL_TAG, STACK_TAG = "gpufleet-node", "name", "gpufleet-pool", "gpufleet-stack"
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

    def measure_overlap(self, charge: BilledCharge) -> timedelta:
        """Return how long the node existed in a row's time; below zero how far they are apart."""
        return min(charge.end, self.until or charge.end) - max(charge.start, self.since)


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

    def merge(self, other: BilledNode) -> None:
        """Add what was summed apart."""
        self.usd += other.usd
        self.hours += other.hours
        for state, usd in other.wasted_usd.items():
            self.wasted_usd[state] = self.wasted_usd.get(state, ZERO) + usd


@dataclass(frozen=True)
class Namesake:
    """What was billed under the name of a node in an account that may not be the node's; ``account`` may be empty."""

    account: str
    billed: BilledNode


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
    """The registry compared with the bill: billed nodes, machines that it does not have, nodes without a bill."""

    billed: tuple[BilledNode, ...]
    unregistered: tuple[UnregisteredMachine, ...]
    unbilled: tuple[RegisteredNode, ...]
    namesakes: tuple[Namesake, ...] = ()

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

    A row belongs to a node by its instance id first, then by the tag gpufleet-node, then by the machine's name: a name
    is of one cloud. Of several nodes with one id or name the row's is that of the stack which its tag names, then the
    one that existed for the most of its time, then the live one.

    A name is not of one account: rows that only have a node's name are summed by account. The node's own account is
    that of its other rows. If no row tells it, and the name is in several accounts, the node gets the cost of none.
    """

    def __init__(self, nodes: Iterable[RegisteredNode], stack_tag: str) -> None:
        self._nodes = list(nodes)
        self._stack_tag = stack_tag
        self._by_instance: dict[tuple[str, str], list[RegisteredNode]] = defaultdict(list)
        self._by_name: dict[tuple[str, str], list[RegisteredNode]] = defaultdict(list)
        for node in self._nodes:
            for cloud in (node.cloud, ""):  # of a row that names no cloud of ours
                self._by_name[cloud, node.name.lower()].append(node)
                if node.instance_id:
                    self._by_instance[cloud, node.instance_id.lower()].append(node)
        self._billed: dict[str, BilledNode] = {}
        self._own_accounts: dict[str, set[str]] = defaultdict(set)
        self._by_account: dict[str, dict[str, BilledNode]] = defaultdict(dict)
        self._unregistered: dict[tuple[str, str], UnregisteredMachine] = {}

    def add(self, charge: BilledCharge) -> bool:
        """Add one row of the stack, or of no stack; return whether it is of another stack's node."""
        node, is_certain = self._find_node(charge)
        if node is None:
            if charge.machine and charge.kind == USAGE:
                self._add_unregistered(charge)
        elif self._is_of_stack(node):
            self._add_to_node(node, charge, is_certain=is_certain)
        else:
            return True
        return False

    def _add_to_node(self, node: RegisteredNode, charge: BilledCharge, *, is_certain: bool) -> None:
        account = find_account(charge.resource)
        if is_certain:
            self._billed.setdefault(node.id, BilledNode(node)).add(charge)
            if account and len(self._own_accounts[node.id]) < MAX_ACCOUNTS:
                self._own_accounts[node.id].add(account)
            return
        sums = self._by_account[node.id]
        if account not in sums and len(sums) >= MAX_ACCOUNTS:
            account = OTHER_MACHINES
        sums.setdefault(account, BilledNode(node)).add(charge)

    def _separate_namesakes(self) -> Iterator[Namesake]:
        """Give each node the rows of its name in its own account; yield the others."""
        for node_id, sums in self._by_account.items():
            own_accounts = self._own_accounts.get(node_id) or ()
            accounts = {account for account in sums if account}
            for account, billed in sums.items():
                is_own = account in own_accounts or not account if own_accounts else len(accounts) <= 1
                if is_own:
                    self._billed.setdefault(node_id, BilledNode(billed.node)).merge(billed)
                else:
                    yield Namesake(account, billed)
        self._by_account.clear()

    def _is_of_stack(self, node: RegisteredNode) -> bool:
        return node.stack in {self._stack_tag, ""}

    def _find_node(self, charge: BilledCharge) -> tuple[RegisteredNode | None, bool]:
        """Return the node of a row, and whether its instance id or the stack's tag says so, not only a name."""
        for key in (charge.machine, charge.resource):
            if key and (nodes := self._by_instance.get((charge.cloud, key.lstrip("/").lower()))):
                return self._choose_node(nodes, charge), True
        for name in (charge.tags.get(NODE_TAG), charge.machine, charge.tags.get(NAME_TAG)):
            if name and (nodes := self._by_name.get((charge.cloud, name.lower()))):
                return self._choose_node(nodes, charge), bool(charge.tags.get(STACK_TAG))
        return None, False

    def _choose_node(self, nodes: list[RegisteredNode], charge: BilledCharge) -> RegisteredNode:
        has_stack = bool(charge.tags.get(STACK_TAG))
        return max(
            nodes,
            key=lambda node: (
                has_stack and self._is_of_stack(node),
                node.measure_overlap(charge),
                node.until is None,
                node.until or node.since,
            ),
        )

    def _add_unregistered(self, charge: BilledCharge) -> None:
        machines = self._unregistered
        key = charge.cloud, charge.machine
        if key not in machines and len(machines) >= MAX_MACHINES:
            key = "", OTHER_MACHINES
        if key not in machines:
            name = charge.tags.get(NODE_TAG) or charge.tags.get(NAME_TAG, "")
            machines[key] = UnregisteredMachine(key[1], name, charge.tags.get(POOL_TAG, ""), charge.cloud)
        machines[key].usd += charge.cost
        machines[key].hours += charge.hours or ZERO

    def compare(
        self,
        declared: Iterable[Charge],
        find_period: Callable[[str], BillPeriod],
        clouds: set[str],
    ) -> NodeComparison:
        """Return the comparison with the stack's nodes, as far as the bill has rows of their clouds."""
        namesakes = tuple(self._separate_namesakes())
        names = {name.lower() for charge in declared for name in _list_names(charge) if name}
        for machine in self._unregistered.values():
            machine.is_declared = bool({machine.name.lower(), machine.id} & names)
        unbilled = [
            node
            for node in self._nodes
            if node.id not in self._billed
            and node.stack == self._stack_tag
            and (node.cloud in clouds or "" in clouds)
            and node.exists_in(find_period(node.cloud))
        ]
        return NodeComparison(
            tuple(sorted(self._billed.values(), key=lambda each: (-each.usd, each.node.name))),
            tuple(sorted(self._unregistered.values(), key=lambda each: (-each.usd, each.id))),
            tuple(sorted(unbilled, key=lambda node: (node.pool, node.name))),
            tuple(sorted(namesakes, key=lambda each: (each.billed.node.name, each.account))),
        )


def find_account(resource: str) -> str:
    """Return the account, project or subscription of a resource's id, empty if it has none."""
    match = ACCOUNT.search(resource[:LONGEST_ID])
    return (match[1] or match[2]).lower() if match else ""


def _list_names(charge: Charge) -> tuple[str, ...]:
    tags = dict(charge.tags)
    return charge.name, tags.get(NODE_TAG, ""), tags.get("Name", "")
