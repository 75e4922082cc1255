"""Rules on a template together with the nodes that get it. Racks must be read first.

Whether a driver branch serves a card, and CUDA a branch, is not decided here: driver data comes after this room,
so the driver plan says so (`gpufleet configure --plan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet.document import KeyPath, SpecProblem
from gpufleet.fleet.pool_request import AcceleratorRequest
from gpufleet.fleet.pool_volume import largest_local_gib
from gpufleet.fleet.rule import FLEET_RULES
from gpufleet.fleet.spec import Fleet
from gpufleet.fleet.template import Blueprint


@dataclass(frozen=True)
class NodeTemplateAssignment:
    """A template and one node that gets it; nodes of a pool are alike, so one stands for all."""

    path: KeyPath
    node: str
    machine: str
    cards: tuple[tuple[str, int], ...]
    storage_gib: float | None
    blueprint: Blueprint

    @property
    def gpu_card_count(self) -> int:
        return sum(count for _, count in self.cards)

    @property
    def gpu_card_vendors(self) -> set[str]:
        return {find_card_vendor(model) for model, _ in self.cards}


def find_card_vendor(card_model: str) -> str:
    """Return the vendor of a card as drivers are named after it."""
    return catalog.get_accelerator(card_model).vendor.lower()


def list_template_assignments(fleet: Fleet) -> Iterator[NodeTemplateAssignment]:
    """Yield every template with the nodes that get it."""
    for index, pool in enumerate(fleet.pools):
        if pool.template and _is_known(pool.machine, pool.cloud):
            cards = _list_cards(pool.machine, pool.cloud, (pool.accelerators,) if pool.accelerators else ())
            plan = fleet.resolve_blueprint(pool.template)
            yield NodeTemplateAssignment(
                ("pools", index, "template"), pool.name, pool.machine, cards, largest_local_gib(pool), plan
            )
    for index, workstation in enumerate(fleet.workstations):
        if workstation.template and _is_known(workstation.machine, "onprem"):
            cards, plan = (
                _list_cards(workstation.machine, "onprem"),
                fleet.resolve_blueprint(workstation.template),
            )
            yield NodeTemplateAssignment(
                ("workstations", index, "template"), workstation.name, workstation.machine, cards, None, plan
            )
    for index, rack in enumerate(fleet.racks):
        if rack.template:
            path, plan = ("racks", index, "template"), fleet.resolve_blueprint(rack.template)
            for node in rack.rack.nodes:
                cards = _list_cards(node.machine, "onprem", node.accelerators)
                yield NodeTemplateAssignment(path, node.name, node.machine, cards, node.storage_gib, plan)


def _list_cards(
    machine: str, cloud: str, added: tuple[AcceleratorRequest, ...] = ()
) -> tuple[tuple[str, int], ...]:
    # A server of one's own may have a machine that is not known.
    built_in = catalog.get_machine(machine, cloud).accelerators if _is_known(machine, cloud) else ()
    gpus = [
        (card.model, card.count) for card in built_in if find_card_vendor(card.model) in {"nvidia", "amd"}
    ]
    return (*gpus, *((card.model, card.count) for card in added))


def _is_known(machine: str, cloud: str) -> bool:
    """Return whether the catalogue has a machine; other rules refuse one that is unknown or retired."""
    try:
        catalog.get_machine(machine, cloud)
    except InputError:
        return False
    return True


def _first_problem_per_path(problems: Iterator[SpecProblem]) -> Iterator[SpecProblem]:
    """Yield one problem for each place: a rack of twenty is one mistake, not twenty."""
    seen: set[KeyPath] = set()
    for problem in problems:
        if problem.path not in seen:
            seen.add(problem.path)
            yield problem


@FLEET_RULES.register_rule(
    "driver-for-cards",
    reason="a driver serves only its vendor's cards",
    source="catalog/data/accelerators.csv, column vendor",
)
def check_driver_matches_cards(fleet: Fleet) -> Iterator[SpecProblem]:
    assignments: dict[KeyPath, NodeTemplateAssignment] = {}
    vendors: dict[KeyPath, set[str]] = {}
    for assignment in list_template_assignments(fleet):
        if assignment.blueprint.software.driver_vendor not in ("auto", "none"):
            assignments.setdefault(assignment.path, assignment)
            vendors[assignment.path] = vendors.get(assignment.path, set()) | assignment.gpu_card_vendors
    for path, first in assignments.items():
        vendor = first.blueprint.software.driver_vendor
        if vendor not in vendors[path]:
            vendor_names = " and ".join(sorted(vendors[path]))
            finding = f"has cards of {vendor_names}" if vendor_names else "has no cards"
            text = f"the template installs {vendor}'s driver, but {first.node} {finding}"
            yield SpecProblem(path, text, "choose another template")


@FLEET_RULES.register_rule(
    "gpus-fit",
    reason="containers can't get more cards than their node has",
    source="catalog/data/machines.csv, the rack file",
)
def check_enough_gpus(fleet: Fleet) -> Iterator[SpecProblem]:
    yield from _first_problem_per_path(_find_too_few_cards(fleet))


def _find_too_few_cards(fleet: Fleet) -> Iterator[SpecProblem]:
    for assignment in list_template_assignments(fleet):
        containers = [
            container for file in assignment.blueprint.container_files for container in file.containers
        ]
        required_cards = max((container.gpu_count for container in containers), default=0)
        if required_cards > assignment.gpu_card_count:
            text = f"the containers need {required_cards} cards, but {assignment.node} has {assignment.gpu_card_count}"
            yield SpecProblem(assignment.path, text, "request fewer cards, or choose another machine")


@FLEET_RULES.register_rule(
    "hardware-fits",
    reason="a hardware profile says what its template is for",
    source="the spec",
)
def check_hardware_profile_fits(fleet: Fleet) -> Iterator[SpecProblem]:
    remedy = "choose another template, or widen its hardware profile"
    yield from _first_problem_per_path(
        SpecProblem(assignment.path, text, remedy)
        for assignment in list_template_assignments(fleet)
        for text in _describe_mismatches(assignment)
    )


def _describe_mismatches(assignment: NodeTemplateAssignment) -> Iterator[str]:
    machines, requirement = assignment.blueprint.hardware.machines, assignment.blueprint.hardware.accelerators
    if machines and assignment.machine not in machines:
        yield f"the hardware profile is for {' or '.join(machines)}, but {assignment.node} is {assignment.machine}"
    if requirement is None:
        return
    matching_cards = sum(
        count
        for model, count in assignment.cards
        if requirement.model in (None, model) and requirement.vendor in (None, find_card_vendor(model))
    )
    if matching_cards < requirement.count:
        kind_of_card = requirement.model or (f"{requirement.vendor} cards" if requirement.vendor else "cards")
        required_cards = f"{requirement.count} {kind_of_card}"
        yield f"the hardware profile needs {required_cards}, but {assignment.node} has {matching_cards}"


@FLEET_RULES.register_rule(
    "volumes-fit",
    reason="volumes of kind nvme share the node's own drives",
    source="the rack file, storage_gb; catalog/data/machine_facts.csv, field local_disks, of a cloud's machine",
)
def check_volumes_fit_drive(fleet: Fleet) -> Iterator[SpecProblem]:
    yield from _first_problem_per_path(_find_too_large_volumes(fleet))


def _find_too_large_volumes(fleet: Fleet) -> Iterator[SpecProblem]:
    for assignment in list_template_assignments(fleet):
        volumes = assignment.blueprint.application.volumes
        required_gib = sum(volume.size_gib for volume in volumes if volume.kind == "nvme")
        if assignment.storage_gib is not None and required_gib > assignment.storage_gib:
            available = f"{assignment.storage_gib:.0f}" if assignment.storage_gib else "no local drives"
            text = f"the nvme volumes take {required_gib} GiB, but {assignment.node} has {available}"
            yield SpecProblem(assignment.path, text, "make the volumes smaller, or set kind: ssd")
