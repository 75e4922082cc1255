"""Rack files: the machines we own, as ``inventory/<rack>.yaml`` declares them."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from gpufleet.boundary import is_identifier
from gpufleet.fleet.bmc import Bmc, EntryBmc, NoBmc, RackBmc
from gpufleet.fleet.boot import FirstBootSettings
from gpufleet.fleet.frozen_model import (
    NAME,
    NAME_MEANING,
    FrozenModel,
    Name,
    PositiveFloat,
    StrictFloat,
    StrictInt,
    build_pattern_annotations,
    build_spec_error,
)
from gpufleet.fleet.hardware import HardwareCost
from gpufleet.fleet.name_range import expand_name_range
from gpufleet.fleet.node_hardware import NodeHardware
from gpufleet.fleet.pool_request import AcceleratorRequest
from gpufleet.fleet.rack_cost import (
    CostGroup,
    EntryCost,
    RackHardwareCost,
    compute_node_share,
    convert_capital,
    sum_group_costs,
)
from gpufleet.fleet.rack_network import RackNetwork

GIB_PER_GB = 1e9 / 2**30  # drives are sold in decimal gigabytes
Slot = Annotated[StrictInt, Field(ge=1, le=200)]
_mac, _mac_schema = build_pattern_annotations(
    r"([0-9a-f]{2}:){5}[0-9a-f]{2}", "a lowercase MAC address like 2c:cf:67:00:00:07"
)
Mac = Annotated[str, _mac, _mac_schema]


def parse_slot_from_name(node_name: str) -> int:
    """Return the slot that a name ends in: blade07 sits in slot 7."""
    digits = re.search(r"(\d+)$", node_name)
    if digits is None or int(digits[1]) == 0:
        raise build_spec_error(
            f"{node_name!r} does not end in a slot number", "set slot, or end the name with the slot's number"
        )
    return int(digits[1])


def _check_names(names: str) -> str:
    for name in expand_name_range(names):
        if not re.fullmatch(NAME, name):
            raise build_spec_error(f"{name!r} is not a name", f"give {NAME_MEANING}")
    return names


def _identifier_check(kind: str) -> AfterValidator:
    """Return a check of a value that becomes part of Ansible's inventory and of ssh's command line."""

    def check_well_formed(value: str) -> str:
        if not is_identifier(value, kind):
            raise build_spec_error(f"{value!r} is not a well-formed {kind}", f"give the node's {kind}")
        return value

    return AfterValidator(check_well_formed)


class RackNodeEntry(FrozenModel):
    """One line of ``nodes``: a name or a range of names (``blade[01-20]``) and what is known of them."""

    name: Annotated[str, AfterValidator(_check_names)]
    slot: Slot | None = None
    serial: Annotated[str, Field(min_length=4), _identifier_check("serial")] | None = None
    address: Annotated[str, _identifier_check("address")] | None = None
    mac: Mac | None = None
    machine: str | None = None
    storage_gb: PositiveFloat | None = None
    accelerators: tuple[AcceleratorRequest, ...] | None = None
    hardware: NodeHardware | None = None
    bmc: EntryBmc | None = None
    cost: EntryCost | None = None


def _check_not_empty(entries: tuple[RackNodeEntry, ...]) -> tuple[RackNodeEntry, ...]:
    if not entries:
        raise build_spec_error("is empty", "give at least one node")
    return entries


class RackNode(FrozenModel):
    """One node as the rack file declares it, with the rack's defaults filled in."""

    name: Name
    slot: Slot
    serial: str | None
    address: str | None
    mac: str | None
    machine: str
    storage_gb: StrictFloat | None
    accelerators: tuple[AcceleratorRequest, ...]
    hardware: NodeHardware = NodeHardware()
    bmc: Bmc | None = None

    @property
    def bmc_target(self) -> tuple[str, str | None] | None:
        """Return what no two nodes may share: the BMC's address and the system on it."""
        return (self.bmc.address, self.bmc.system) if self.bmc else None

    @property
    def hardware_text(self) -> str:
        """Return the machine with its declared cards, in words."""
        cards = " and ".join(f"{card.count} x {card.model}" for card in self.accelerators)
        return f"{self.machine} with {cards}" if cards else self.machine

    @property
    def storage_gib(self) -> float | None:
        """Return one drive's size, which is declared in GB (10^9 bytes)."""
        return None if self.storage_gb is None else self.storage_gb * GIB_PER_GB

    @property
    def all_storage_gib(self) -> float:
        """Return the size of all drives; a node with a size and no number has one."""
        return (self.storage_gib or 0.0) * (self.hardware.drives or 1)


class Rack(FrozenModel):
    """A rack file. Entries of ``nodes`` win over what the rack says for all its nodes."""

    plugin: Annotated[
        Literal["gpufleet.fleet.rack"], Field(description="tells Ansible which plugin reads this file")
    ]
    name: Name
    kind: Literal["blades", "bench", "servers"]
    site: Name
    machine: str | None = None
    network: RackNetwork | None = None
    bmc: RackBmc | None = None
    storage_gb: PositiveFloat | None = None
    accelerators: tuple[AcceleratorRequest, ...] = ()
    hardware: NodeHardware = NodeHardware()
    cost: RackHardwareCost | None = None
    boot: FirstBootSettings | None = None
    entries: Annotated[tuple[RackNodeEntry, ...], Field(alias="nodes"), AfterValidator(_check_not_empty)]

    @model_validator(mode="before")
    @classmethod
    def _expand_range(cls, data: Any) -> Any:
        """Accept ``nodes: blade[01-20]`` as a list of one entry."""
        if isinstance(data, dict) and isinstance(data.get("nodes"), str):
            return {**data, "nodes": [{"name": data["nodes"]}]}
        return data

    @property
    def machine_text(self) -> str:
        """Return the names of the rack's machines."""
        return self.machine or ", ".join(dict.fromkeys(node.machine for node in self.nodes))

    @model_validator(mode="after")
    def _check_unique_fields(self) -> Self:
        for field in ("name", "slot", "serial", "address", "mac"):
            seen: dict[Any, str] = {}
            for node in self.nodes:
                value = getattr(node, field)
                if value is not None and value in seen:
                    shared = f"{seen[value]} and {node.name} share the {field} {value}"
                    raise build_spec_error(
                        f"{value} is declared twice" if field == "name" else shared,
                        "make it unique",
                        *self.path_of_node(node.name),
                    )
                seen[value] = node.name
        return self

    @model_validator(mode="after")
    def _check_bmcs(self) -> Self:
        """Check that no two nodes would switch the same machine, and that no entry's ``bmc`` is without the rack's."""
        seen: dict[tuple[str, str | None], str] = {}
        for node in self.nodes:
            target = node.bmc_target
            if target is not None and target in seen:
                raise build_spec_error(
                    f"{seen[target]} and {node.name} share the BMC {target[0]}",
                    "give each its own address",
                    *self.path_of_node(node.name),
                )
            if target is not None:
                seen[target] = node.name
        declares_bmc = (e for e in self.entries if e.bmc and not isinstance(e.bmc, NoBmc))
        if self.bmc is None and (entry := next(declares_bmc, None)):
            raise build_spec_error(
                f"{entry.name} has a BMC, but the rack does not say how to talk to it",
                "add bmc: {protocol: redfish, ca_file: …} or bmc: {protocol: ipmi} to the rack",
                *self.path_of_node(expand_name_range(entry.name)[0]),
                "bmc",
            )
        return self

    @model_validator(mode="after")
    def _check_drives(self) -> Self:
        """Check that drives which are counted have a size."""
        node = next((node for node in self.nodes if node.hardware.drives and not node.storage_gb), None)
        if node:
            raise build_spec_error(
                f"{node.name} has hardware.drives without storage_gb",
                "give storage_gb, the size of one drive",
                *self.path_of_node(node.name),
            )
        return self

    @model_validator(mode="after")
    def _check_cost(self) -> Self:
        """Check that each node has one capital: its entry's, or the rack's."""
        cost = self.cost
        own = [(index, entry.cost) for index, entry in enumerate(self.entries) if entry.cost]
        if cost is None:
            if own:
                raise build_spec_error(
                    f"{self.entries[own[0][0]].name} has a cost, but the rack does not say what power costs",
                    "add cost: {life_years: 4, watts_per_node: 300, usd_per_kwh: 0.30} to the rack",
                    *("nodes", own[0][0], "cost"),
                )
            return self
        for index, entry_cost in own:
            if entry_cost.capital_eur and not cost.usd_per_eur:
                raise build_spec_error(
                    "capital_eur has no exchange rate",
                    "add usd_per_eur, such as 1.10, to the rack's cost",
                    *("nodes", index, "cost", "capital_eur"),
                )
        unpriced = [
            index for index, entry in enumerate(self.entries) if not (entry.cost and entry.cost.capital)
        ]
        has_capital = bool(cost.capital_usd or cost.capital_eur)
        if not has_capital and len(unpriced) == len(self.entries):
            raise build_spec_error(
                "exactly one of capital_usd and capital_eur must be set",
                "give capital_usd or capital_eur",
                "cost",
            )
        if not has_capital and unpriced:
            raise build_spec_error(
                f"{self.entries[unpriced[0]].name} has no capital",
                "add cost: {capital_usd: …} to its entry, or capital_usd to the rack's cost for all nodes without one",
                *("nodes", unpriced[0]),
            )
        if has_capital and not unpriced:
            raise build_spec_error(
                "is the price of no node: every entry has its own",
                "remove it",
                *("cost", "capital_usd" if cost.capital_usd else "capital_eur"),
            )
        return self

    @model_validator(mode="after")
    def _check_gateway(self) -> Self:
        """Check that the gateway is in the nodes' network and is not a node."""
        gateway = self.boot.gateway if self.boot else None
        if gateway is None:
            return self
        if self.network is None or gateway not in self.network.cidr:
            raise build_spec_error(
                f"{gateway} is not in network.cidr",
                "give an address of the rack's network",
                "boot",
                "gateway",
            )
        conflicting_node = next((node.name for node in self.nodes if node.address == str(gateway)), None)
        if conflicting_node:
            raise build_spec_error(
                f"{gateway} is {conflicting_node}'s address",
                "give the router's, or move the slots",
                "boot",
                "gateway",
            )
        return self

    @cached_property
    def nodes(self) -> tuple[RackNode, ...]:
        """Return every node, in the order of its slot."""
        rack_nodes = [
            self._build_node(entry, name, index)
            for index, entry in enumerate(self.entries)
            for name in expand_name_range(entry.name)
        ]
        return tuple(sorted(rack_nodes, key=lambda node: node.slot))

    @property
    def total_cost(self) -> HardwareCost | None:
        """Return the cost of all nodes, with what entries give of their own; None without cost facts."""
        if self.cost is None or not any(entry.cost for entry in self.entries):
            return self.cost
        return sum_group_costs(self.cost, list(dict.fromkeys(self.cost_groups.values())))

    @property
    def usd_per_hour_by_node(self) -> dict[str, float]:
        """Return what each node costs per hour, by name; their sum is the rack's cost. Empty without cost facts."""
        total, count = self.total_cost, len(self.nodes)
        if self.cost is None or total is None:
            return {}
        if not any(entry.cost for entry in self.entries):
            return dict.fromkeys((node.name for node in self.nodes), total.usd_per_hour(count) / count)
        groups = self.cost_groups
        shares = {group: compute_node_share(self.cost, total, group, count) for group in set(groups.values())}
        return {name: shares[group] for name, group in groups.items()}

    @property
    def cost_groups(self) -> dict[str, CostGroup]:
        """Return the group of each node by which it is priced; only for a rack with cost facts."""
        if self.cost is None:
            return {}
        rate, common = self.cost.usd_per_eur, convert_capital(self.cost, self.cost.usd_per_eur)
        names = [(entry, expand_name_range(entry.name)) for entry in self.entries]
        sharers = sum(len(each) for entry, each in names if not (entry.cost and entry.cost.capital))
        groups: dict[str, CostGroup] = {}
        for entry, entry_names in names:
            capital = convert_capital(entry.cost, rate) if entry.cost else None
            watts = entry.cost.watts_per_node if entry.cost else None
            if capital is None and common is not None:  # its part of the rack's capital
                share = common.value * len(entry_names) / sharers
                capital = common.model_copy(update={"value": share})
            if capital is not None:  # _check_cost rules the rest out
                group = CostGroup(entry.name, len(entry_names), capital, watts or self.cost.watts_per_node)
                groups |= dict.fromkeys(entry_names, group)
        return groups

    @property
    def usd_per_hour(self) -> float | None:
        """Return what the whole rack costs per hour (formula: ``HardwareCost``), None without cost facts."""
        return None if self.total_cost is None else self.total_cost.usd_per_hour(len(self.nodes))

    @property
    def usd_per_hour_as_of(self) -> str | None:
        """Return the day of the oldest figure behind the cost; None where there is none or it is undated."""
        return None if self.total_cost is None else self.total_cost.oldest_figure_date

    @property
    def usd_per_hour_source(self) -> str:
        """Return where that figure is from, or why there is none."""
        return (
            f"inventory/{self.name}.yaml has no cost facts"
            if self.total_cost is None
            else self.total_cost.figure_sources_text
        )

    @property
    def equally_priced_kinds(self) -> tuple[str, ...]:
        """Return the kinds of unlike nodes to which one capital, or one number of watts, applies; usually none.

        Each is a node with its machine and cards, such as ``gpu02: R760 with 4 x L40S``.
        """
        if self.cost is None:
            return ()
        owners = {name: entry.cost for entry in self.entries for name in expand_name_range(entry.name)}
        for field in ("capital", "watts_per_node"):
            kinds: dict[Any, str] = {}
            for node in self.nodes:
                own = owners[node.name]
                if own is None or getattr(own, field) is None:
                    kinds.setdefault((node.machine, node.accelerators), f"{node.name}: {node.hardware_text}")
            if len(kinds) > 1:
                return tuple(kinds.values())
        return ()

    def path_of_node(self, name: str) -> tuple[str, int]:
        """Return where the file declares a node."""
        indexes = [at for at, entry in enumerate(self.entries) if name in expand_name_range(entry.name)]
        return ("nodes", indexes[-1])

    def _build_node(self, entry: RackNodeEntry, name: str, index: int) -> RackNode:
        machine = entry.machine or self.machine
        if machine is None:
            raise build_spec_error(
                f"{name} has no machine",
                "set machine in the node's entry, or at the rack for all nodes",
                "nodes",
                index,
            )
        try:
            slot = entry.slot or parse_slot_from_name(name)
            address = entry.address or (self.network.address_of_slot(slot) if self.network else None)
            bmc = self.bmc.build_node_bmc(name, slot, entry.bmc) if self.bmc else None
        except PydanticCustomError as error:
            context = error.context or {}
            raise build_spec_error(context["problem"], context["remedy"], "nodes", index) from None
        return RackNode(
            name=name,
            slot=slot,
            serial=entry.serial,
            address=address,
            mac=entry.mac,
            machine=machine,
            storage_gb=entry.storage_gb or self.storage_gb,
            accelerators=self.accelerators if entry.accelerators is None else entry.accelerators,
            hardware=entry.hardware.with_defaults_from(self.hardware) if entry.hardware else self.hardware,
            bmc=bmc,
        )
