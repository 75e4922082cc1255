"""Rules on a template together with the nodes that get it. Racks must be read first.

Whether a driver branch serves a card, and CUDA a branch, is not decided here: driver data comes after this room,
so the driver plan says so (`gpufleet configure --plan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet.application import Container
from gpufleet.fleet.document import Path_, Problem
from gpufleet.fleet.request import AcceleratorRequest
from gpufleet.fleet.rule import fleet_rule
from gpufleet.fleet.spec import Fleet
from gpufleet.fleet.template import Blueprint


@dataclass(frozen=True)
class Meeting:
    """A template and one node that gets it; nodes of a pool are alike, so one stands for all."""

    path: Path_
    node: str
    machine: str
    cards: tuple[tuple[str, int], ...]
    storage_gib: float | None
    blueprint: Blueprint

    @property
    def count(self) -> int:
        return sum(count for _, count in self.cards)

    @property
    def vendors(self) -> set[str]:
        return {vendor_of(model) for model, _ in self.cards}


def vendor_of(model: str) -> str:
    """Return the vendor of a card as drivers are named after it."""
    return catalog.accelerator(model).vendor.lower()


def meetings(fleet: Fleet) -> Iterator[Meeting]:
    """Yield every template with the nodes that get it."""
    for index, pool in enumerate(fleet.pools):
        if pool.template:
            cards = _cards(pool.machine, pool.cloud, (pool.accelerators,) if pool.accelerators else ())
            plan = fleet.blueprint(pool.template)
            yield Meeting(("pools", index, "template"), pool.name, pool.machine, cards, None, plan)
    for index, desk in enumerate(fleet.workstations):
        if desk.template:
            cards, plan = _cards(desk.machine, "onprem"), fleet.blueprint(desk.template)
            yield Meeting(("workstations", index, "template"), desk.name, desk.machine, cards, None, plan)
    for index, use in enumerate(fleet.racks):
        if use.template:
            path, plan = ("racks", index, "template"), fleet.blueprint(use.template)
            for node in use.rack.nodes:
                cards = _cards(node.machine, "onprem", node.accelerators)
                yield Meeting(path, node.name, node.machine, cards, node.storage_gib, plan)


def _cards(
    machine: str, cloud: str, added: tuple[AcceleratorRequest, ...] = ()
) -> tuple[tuple[str, int], ...]:
    try:
        built_in = catalog.machine(machine, cloud).accelerators
    except InputError:
        built_in = ()  # retired: rule machine-known has said so
    own = [(card.model, card.count) for card in built_in if vendor_of(card.model) in {"nvidia", "amd"}]
    return (*own, *((card.model, card.count) for card in added))


def _once(problems: Iterator[Problem]) -> Iterator[Problem]:
    """Yield one problem for each place: a rack of twenty is one mistake, not twenty."""
    seen: set[Path_] = set()
    for problem in problems:
        if problem.path not in seen:
            seen.add(problem.path)
            yield problem


@fleet_rule(
    "driver-for-cards",
    reason="a driver serves only its vendor's cards",
    source="catalog/data/accelerators.csv, column vendor",
)
def driver_for_cards(fleet: Fleet) -> Iterator[Problem]:
    wanted: dict[Path_, Meeting] = {}
    vendors: dict[Path_, set[str]] = {}
    for meeting in meetings(fleet):
        if meeting.blueprint.software.driver.vendor != "none":
            wanted.setdefault(meeting.path, meeting)
            vendors[meeting.path] = vendors.get(meeting.path, set()) | meeting.vendors
    for path, first in wanted.items():
        vendor = first.blueprint.software.driver.vendor
        if vendor not in vendors[path]:
            met = " and ".join(sorted(vendors[path]))
            has = f"has cards of {met}" if met else "has no cards"
            text = f"installs {vendor}'s driver, but {first.node} {has}"
            yield Problem(path, text, "choose another template")


@fleet_rule(
    "gpus-fit",
    reason="containers can't get more cards than their node has",
    source="catalog/data/machines.csv, the rack file",
)
def gpus_fit(fleet: Fleet) -> Iterator[Problem]:
    yield from _once(_too_few(fleet))


def _too_few(fleet: Fleet) -> Iterator[Problem]:
    for meeting in meetings(fleet):
        wanted = cards_wanted(meeting.blueprint.application.containers)
        if wanted > meeting.count:
            text = f"its containers take {wanted} cards, but {meeting.node} has {meeting.count}"
            yield Problem(meeting.path, text, "ask for fewer, or choose another machine")


def cards_wanted(containers: tuple[Container, ...]) -> int:
    """Return how many cards a node needs so that each container gets what it asks for.

    Counted cards are a container's own; cards by number may be shared, and ``all`` shares what there is.
    """
    counted = sum(each.gpus for each in containers if isinstance(each.gpus, int))
    numbers = {number for each in containers if isinstance(each.gpus, tuple) for number in each.gpus}
    some = any(each.gpus == "all" for each in containers)
    return max(counted + len(numbers), max(numbers, default=-1) + 1, int(some))


@fleet_rule(
    "hardware-fits",
    reason="a hardware profile says what its template is for",
    source="the spec",
)
def hardware_fits(fleet: Fleet) -> Iterator[Problem]:
    remedy = "choose another template, or widen its hardware profile"
    yield from _once(
        Problem(meeting.path, text, remedy) for meeting in meetings(fleet) for text in _unfit(meeting)
    )


def _unfit(meeting: Meeting) -> Iterator[str]:
    wanted, need = meeting.blueprint.hardware.machines, meeting.blueprint.hardware.accelerators
    if wanted and meeting.machine not in wanted:
        yield f"is for {' or '.join(wanted)}, but {meeting.node} is {meeting.machine}"
    if need is None:
        return
    fit = sum(
        count
        for model, count in meeting.cards
        if need.model in (None, model) and need.vendor in (None, vendor_of(model))
    )
    if fit < need.count:
        what = need.model or (f"{need.vendor} cards" if need.vendor else "cards")
        yield f"needs {need.count} {what}, but {meeting.node} has {fit}"


@fleet_rule(
    "volumes-fit",
    reason="volumes of kind nvme share the node's own drive",
    source="the rack file, storage_gb",
)
def volumes_fit(fleet: Fleet) -> Iterator[Problem]:
    yield from _once(_too_large(fleet))


def _too_large(fleet: Fleet) -> Iterator[Problem]:
    for meeting in meetings(fleet):
        volumes = meeting.blueprint.application.volumes
        wanted = sum(volume.size_gib for volume in volumes if volume.kind == "nvme")
        if meeting.storage_gib is not None and wanted > meeting.storage_gib:
            text = f"its nvme volumes take {wanted} GiB, but {meeting.node} has {meeting.storage_gib:.0f}"
            yield Problem(meeting.path, text, "make them smaller, or say kind: ssd")
