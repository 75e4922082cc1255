"""Write a plan into a stack file as a pool, rack or workstation.

The file is written atomically: ``gpufleet.fleet`` validates the new text under a temporary name first. An existing
file keeps its comments and order; it is changed only with ``merge``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from io import StringIO
from math import ceil
from pathlib import Path
from typing import Any

from gpufleet import catalog
from gpufleet.boundary import convert_write_errors, decode_yaml_with_comments, read_text
from gpufleet.catalog import HOURS_PER_MONTH
from gpufleet.errors import InputError
from gpufleet.sizing.hardware import HardwareOffer
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.result import SizingPlan, SizingResult
from gpufleet.sizing.plans.search import find_plans

KEY = "gpufleet:fleet"
STACK_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
HEADER = "# yaml-language-server: $schema=fleet.schema.json\n# {what}\n"
UNCOMMITTED_PURCHASES = {
    True: ("owned", "on_demand", "spot"),
    False: ("owned", "on_demand"),
}  # key: is it a training?
TEMPLATES = {True: "trainer", False: "llm-server"}
Node = dict[str, Any]


def choose_plan_to_write(request: SizingRequest, result: SizingResult) -> tuple[SizingPlan, str]:
    """Return the plan to write, and a note if it is not the first plan.

    Without ``--purchase``, serving uses on-demand capacity and training uses on-demand or spot: no spot eviction
    while serving, and no commitment of years by default.
    """
    first = result.plans[0]
    allowed = UNCOMMITTED_PURCHASES[first.workload.is_training]
    purchase = first.offer.purchase if first.offer else ""
    if request.purchases or not purchase or purchase in allowed:
        return first, ""
    alternatives = find_plans(replace(request, purchases=allowed, max_plans=1)).plans
    if not alternatives:
        return (
            first,
            f"only {purchase} offers are known: give --purchase {purchase} to confirm it",
        )
    offer = alternatives[0].offer
    other_purchase = offer.purchase if offer else ""
    return (
        alternatives[0],
        f"the best plan is {purchase}: wrote the best {other_purchase} plan; --purchase {purchase} writes the best one",
    )


def write_plan_to_stack(plan: SizingPlan, stack: str, root: Path, *, merge: bool = False) -> str:
    """Write a plan into ``stacks/Pulumi.<stack>.yaml``; return a message with the entry and the next command."""
    if not STACK_NAME.fullmatch(stack):
        raise InputError(
            f"{stack!r} is not a stack's name",
            where="--emit",
            remedy="use lowercase letters, digits and hyphens",
        )
    if not plan.is_feasible:
        raise InputError("the plan cannot run", where="--emit", remedy="see the reason printed above")
    path = root / "stacks" / f"Pulumi.{stack}.yaml"
    label = path.relative_to(root)
    if path.exists() and not merge:
        raise InputError(
            f"{label} exists", where="--emit", remedy="give --merge to add to it, or another name"
        )
    kind, item = _build_entry(plan)
    document = _read_stack(path) if path.exists() else _new_stack(root, plan, stack)
    _insert_entry(document, kind, item, plan)
    _validate_and_save(path, document, stack, root, fresh=None if path.exists() else _describe_plan(plan))
    return f"wrote {label}: {kind[:-1]} {item['name']}; next: gpufleet cost estimate -s {stack}"


def _build_entry(plan: SizingPlan) -> tuple[str, Node]:
    """Return the fleet key (pools, racks, workstations) and the plan's entry."""
    hardware = plan.hardware
    if hardware.origin == "cloud" and plan.offer is not None:
        return "pools", _build_pool(plan)
    if hardware.origin == "rack":
        return "racks", {"name": hardware.owner}
    if hardware.origin == "workstation" and hardware.machine != hardware.name:
        return "workstations", {"name": hardware.name, "machine": hardware.machine}
    if hardware.origin == "cloud":
        problem = f"{hardware.name} has no price in this region and purchase"
        remedy = "choose another --region or --purchase, or import prices: gpufleet prices import"
    else:
        problem = f"{hardware.name} is not a machine that a stack can declare"
        remedy = "choose rentable hardware: --on p4d.24xlarge, or leave --on out and give --cloud"
    raise InputError(problem, where="--emit", remedy=remedy)


def _build_pool(plan: SizingPlan) -> Node:
    offer = plan.offer
    if offer is None:
        raise ValueError("a pool without an offer")
    purchase = _build_purchase(plan.hardware.machine, offer)
    pool: Node = {"name": _pool_name(plan), "cloud": offer.cloud, "region": offer.region}
    cloud = catalog.get_cloud(offer.cloud)
    has_fabric = plan.nodes > 1 and bool(catalog.get_machine(plan.hardware.machine, offer.cloud).fabric)
    needs_zone = offer.cloud == "gcp" or purchase["kind"] == "reserved" or has_fabric
    if cloud.has_zonal_reservations and needs_zone:
        card = plan.hardware.attached_card or None
        facts = catalog.get_machine_facts(plan.hardware.machine, offer.cloud, card)
        sold_in = facts.zones.get(offer.region, ()) if facts else ()
        pool["zones"] = [sold_in[0] if sold_in else cloud.example_zone_name(offer.region)]
    pool |= {"machine": plan.hardware.machine, "count": plan.nodes, "purchase": purchase}
    if plan.hardware.attached_card:
        pool["accelerators"] = {
            "model": plan.hardware.attached_card,
            "count": plan.hardware.devices_per_node,
        }
    if has_fabric:
        pool["fabric"] = "auto"
    bills_around_the_clock = purchase["kind"] in ("reserved", "committed")
    if plan.work_hours is not None and not bills_around_the_clock and plan.work_hours < HOURS_PER_MONTH:
        pool["hours_per_month"] = max(1, ceil(plan.work_hours))
    pool["template"] = TEMPLATES[plan.workload.is_training]
    return pool


def _pool_name(plan: SizingPlan) -> str:
    """Return a name that depends on model and task only, so that writing again replaces the same entry."""
    slug = re.sub(r"[^a-z0-9]+", "-", plan.workload.model.name.lower()).strip("-")[:30].strip("-")
    use = "train" if plan.workload.is_training else "serve"
    return f"{use}-{slug}" if slug else use


def _build_purchase(machine: str, offer: HardwareOffer) -> Node:
    """Return the purchase of the pool: a price for a term reserves capacity where the machine can be reserved.

    Elsewhere (Azure's ND series) the term is a billing commitment only. Price lists also have machines that are not
    sold that way: Google's a3-ultragpu on demand.
    """
    facts = catalog.get_machine_facts(machine, offer.cloud)
    sold = (
        facts.purchases if facts and facts.is_known("purchases") else frozenset(("reserved", offer.purchase))
    )
    if offer.purchase.startswith("reserved"):
        term = offer.purchase.removeprefix("reserved_")
        if "reserved" in sold:
            return {"kind": "reserved", "reservation": "create", "term": term}
        if "committed" in sold:
            return {"kind": "committed", "term": term}
    elif offer.purchase in sold:
        return {"kind": offer.purchase}
    raise InputError(
        f"{machine} has a list price for {offer.purchase}, but is not sold that way",
        where="--emit",
        remedy=f"it is sold by {', '.join(sorted(sold))}: choose another --purchase or machine",
    )


def _new_stack(root: Path, plan: SizingPlan, stack: str) -> Node:
    """Return a new stack document; owner and ssh are copied from an existing stack."""
    template_fleet = _find_template_fleet(root)
    pools = plan.hardware.origin == "cloud"
    if pools and not (template_fleet.get("ssh") or {}).get("authorized_keys"):
        remedy = f"write stacks/Pulumi.{stack}.yaml with owner and ssh first, then give --merge"
        raise InputError("no stack of this project has ssh.authorized_keys", where="--emit", remedy=remedy)
    fleet: Node = {"owner": template_fleet.get("owner", "ml-platform")}
    if pools:
        fleet["ssh"] = template_fleet["ssh"]
    return {"config": {KEY: fleet}}


def _find_template_fleet(root: Path) -> Mapping[str, Any]:
    """Return the fleet of the first stack with ssh keys, else of the first stack, else an empty mapping."""
    stacks = [_read_stack(path) for path in sorted((root / "stacks").glob("Pulumi.*.yaml"))]
    fleets = [
        (stack_document.get("config") or {}).get(KEY) or {}
        for stack_document in stacks
        if isinstance(stack_document, Mapping)
    ]
    return next((fleet for fleet in fleets if fleet.get("ssh")), fleets[0] if fleets else {})


def _insert_entry(document: Any, kind: str, item: Node, plan: SizingPlan) -> None:
    """Replace the entry of the same name, else append the entry."""
    fleet = (document.get("config") or {}).get(KEY) if isinstance(document, Mapping) else None
    if not isinstance(fleet, dict):
        raise InputError(f"has no {KEY}", where="--emit", remedy="name another stack")
    entries = fleet.setdefault(kind, [])
    positions = [at for at, entry in enumerate(entries) if entry.get("name") == item["name"]]
    if positions:
        entries[positions[0]] = item
    else:
        entries.append(item)
    template = item.get("template")
    templates = fleet.setdefault("templates", {}) if template else {}
    if template and template not in templates:
        vendor = {"NVIDIA": "nvidia", "AMD": "amd"}.get(plan.hardware.accelerator.vendor, "none")
        templates[template] = {"driver": {"vendor": vendor}, "burn_in": "quick"}
    if kind == "pools" and item["cloud"] == "aws":
        document["config"].setdefault("aws:region", item["region"])


def _validate_and_save(path: Path, document: Any, stack: str, root: Path, *, fresh: str | None) -> None:
    """Validate the text with ``fleet.load_fleet`` under a temporary name, then replace the stack file."""
    from gpufleet import fleet

    text = (HEADER.format(what=fresh) if fresh else "") + _dump_yaml(document)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with convert_write_errors("--emit"):
            draft.write_text(text, encoding="utf-8")
        fleet.load_fleet(stack, root, config_file=draft)
        draft.replace(path)
    except InputError as error:
        raise InputError(error.problem, where="--emit", key=error.key, remedy=error.remedy) from error
    finally:
        draft.unlink(missing_ok=True)


def _describe_plan(plan: SizingPlan) -> str:
    work = plan.workload
    what = f"{work.model.name}, {work.task}, {work.precision}"
    return f"Sized by gpufleet: {what}, on {plan.nodes} {plan.hardware.name}."


def _read_stack(path: Path) -> Any:
    return decode_yaml_with_comments(read_text(path, where=path.name), path.name)


def _dump_yaml(document: Any) -> str:
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    yaml.width = 200
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = StringIO()
    yaml.dump(document, out)
    return out.getvalue()
