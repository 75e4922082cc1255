"""EC2 fleets and spot fleets: a target capacity, split between on-demand and spot, of any of several types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.graph import Graph
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricers import aws_launch, aws_parts
from gpufleet.cost.pricers.aws_make import instead
from gpufleet.cost.pricing.component import Components, CostComponent, PartContext, UnpricedComponent
from gpufleet.cost.values import read_list, read_number, read_text, read_value
from gpufleet.engine import Marker, Resource

NOT_MACHINES = "its capacity counts vCPUs or memory, not machines"
UNKNOWN_SIZE = "its target capacity is not known until deployment"
HELD = "launchTemplateSpecification"


@dataclass(frozen=True)
class _Wanted:
    """What a fleet asks for: machines on demand and on spot, and the most that it offers for the latter."""

    resource: Resource
    graph: Graph
    on_demand: Decimal
    spot: Decimal
    bids: tuple[Any, ...] = ()


def fleet(resource: Resource, graph: Graph) -> Components:
    """Bill an EC2 fleet at its target capacity."""
    target = read_value(resource.inputs, "targetCapacitySpecification")
    if read_text(target, "targetCapacityUnitType") not in (None, "units"):
        return [UnpricedComponent(NOT_MACHINES, "machine")]
    total, usual, spot = (
        read_number(target, key)
        for key in ("totalTargetCapacity", "onDemandTargetCapacity", "spotTargetCapacity")
    )
    if not isinstance(total, Decimal) or isinstance(usual, Marker) or isinstance(spot, Marker):
        return [UnpricedComponent(UNKNOWN_SIZE, "machine")]
    told = (usual or ZERO, spot or ZERO)
    rest = max(ZERO, total - sum(told))
    to_spot = read_text(target, "defaultTargetCapacityType") == "spot"
    shares = (told[0], told[1] + rest) if to_spot else (told[0] + rest, told[1])
    configs = _configs(resource)
    wanted = _Wanted(resource, graph, *shares, bids=(_offered(configs, "maxPrice"),))
    return _launched(wanted, configs, ("launchTemplateId", "launchTemplateName"))


def request(resource: Resource, graph: Graph) -> Components:
    """Bill a spot fleet at its target capacity, of which a part may be on demand."""
    total, usual = (read_number(resource.inputs, key) for key in ("targetCapacity", "onDemandTargetCapacity"))
    if read_text(resource.inputs, "targetCapacityUnitType") not in (None, "units"):
        return [UnpricedComponent(NOT_MACHINES, "machine")]
    if not isinstance(total, Decimal) or isinstance(usual, Marker):
        return [UnpricedComponent(UNKNOWN_SIZE, "machine")]
    on_demand, configs = min(total, usual or ZERO), _configs(resource)
    bids = (read_number(resource.inputs, "spotPrice"), _offered(configs, "spotPrice"))
    wanted = _Wanted(resource, graph, on_demand, total - on_demand, bids)
    if plain := read_list(resource.inputs, "launchSpecifications"):
        kinds = aws_launch.kinds(plain, None)
        found = _machines(wanted, kinds, None)
        around = _around(found, kinds)
        return [*found, *_plain_disks(plain[0], around)] if around else found
    return _launched(wanted, configs, ("id", "name"))


def _configs(resource: Resource) -> list[Mapping[str, Any]]:
    listed = read_list(resource.inputs, "launchTemplateConfigs")
    return [config for config in listed if isinstance(config, Mapping)]


def _launched(wanted: _Wanted, configs: list[Mapping[str, Any]], keys: tuple[str, str]) -> Components:
    """Return the machines of a fleet and what comes with them; every configuration offers its types."""
    sources = [_source(wanted, at, keys) for at in range(len(configs))]
    overrides: list[Any] = []
    for config, source in zip(configs, sources, strict=True):
        own = read_list(config, "overrides")
        typed = any(
            read_value(each, "instanceType") or read_value(each, "instanceRequirements") for each in own
        )
        overrides += own if typed or source is None else [{"instanceType": source.inputs.get("instanceType")}]
    first = sources[0] if sources else None
    kinds = aws_launch.kinds(overrides, first)
    found = _machines(wanted, kinds, first)
    around = _around(found, kinds)
    return [*found, *aws_launch.beside(first, around, wanted.resource, wanted.graph)] if around else found


def _source(wanted: _Wanted, at: int, keys: tuple[str, str]) -> Resource | None:
    """Return the launch template of one configuration; a single one may stand there without its list."""
    paths: list[tuple[str | int, ...]] = [("launchTemplateConfigs", at, HELD, key) for key in keys]
    if at == 0:
        paths += [("launchTemplateConfigs", HELD, key) for key in keys]
    return aws_launch.template(wanted.resource, wanted.graph, *paths)


def _machines(
    wanted: _Wanted, kinds: aws_launch.Kinds | UnpricedComponent, source: Resource | None
) -> Components:
    if isinstance(kinds, UnpricedComponent):
        return [kinds]
    if source and (other := instead(source.inputs)):
        return [other]
    terms = wanted.graph.terms_of(wanted.resource, source, spot=False)
    spot = replace(aws_launch.bidding(terms, *wanted.bids), purchase="spot")
    usual, flexible = _used(wanted)
    main = CostComponent(
        "machine",
        kinds.names,
        "aws",
        aws_parts.region(wanted.resource, wanted.graph),
        count_ratios=kinds.shares,
    )
    asked = aws_launch.claimed(source, kinds, wanted.graph)
    told = (("machine:on_demand", usual, terms, asked), ("machine:spot", flexible, spot, None))
    return [
        replace(
            main,
            component=name,
            count=kinds.machines(count),
            capacity_units=count if kinds.weighted else None,
            weights=kinds.weights,
            terms=bought,
            hours_per_month=bought.billed_hours,
            claim=by,
        )
        for name, count, bought, by in told
        if count.high > 0
    ]


def _used(wanted: _Wanted) -> tuple[Range, Range]:
    """Return both shares as used: a size in the usage file moves the spot share, whose capacity gives."""
    usual, flexible = Range.of(wanted.on_demand), Range.of(wanted.spot)
    whole = wanted.graph.resolve_size(wanted.resource, usual + flexible)
    return (usual, whole.minus(usual)) if whole else (usual, flexible)


def _around(found: Components, kinds: aws_launch.Kinds | UnpricedComponent) -> PartContext | None:
    """Return what goes with all machines of a fleet, None where there are none that can be counted."""
    machines = [item for item in found if isinstance(item, CostComponent)]
    if not machines or isinstance(kinds, UnpricedComponent):
        return None
    each, first = (
        (kinds.disks(item.capacity_units) if item.capacity_units else item.count for item in machines),
        machines[0],
    )
    return PartContext("aws", first.region, first.terms.pool, Range.total(each), first.hours_per_month)


def _plain_disks(specification: Any, around: PartContext) -> Components:
    """Return the disks and addresses of a launch specification, which lists its root device."""
    root: Any = next(iter(read_list(specification, "rootBlockDevices")), {})
    found: Components = list(aws_parts.attached({**dict(specification), "rootBlockDevice": root}, around))
    if read_value(specification, "associatePublicIpAddress") is True:
        found.append(around.part_component("public_ipv4", "public_ipv4"))
    return found


def _offered(configs: list[Mapping[str, Any]], key: str) -> Decimal | None:
    """Return the most that any override offers, where each of them says it; else the market's price is paid."""
    entries = [entry for config in configs for entry in read_list(config, "overrides")]
    told = [found for entry in entries if isinstance(found := read_number(entry, key), Decimal)]
    return max(told) if told and len(told) == len(entries) else None
