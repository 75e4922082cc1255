"""A machine with its facts, as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.catalog.fact_value import PARSERS, UNKNOWN
from gpufleet.catalog.machine_facts import FactCell, get_machine_facts
from gpufleet.catalog.query import get_machine
from gpufleet.catalog.source import load_catalog_sources
from gpufleet.errors import InputError


def build_machine_report(
    name: str, cloud: str | None = None, accelerator: str | None = None
) -> dict[str, Any]:
    """Return the machine, its facts in the table's notation and their sources; raise InputError if it is unknown."""
    machine = get_machine(name, cloud)
    if accelerator is not None and accelerator not in machine.attachable:
        choices = ", ".join(machine.attachable)
        raise InputError(
            f"{accelerator!r} cannot be attached to {machine.name}",
            remedy=f"give one of {choices}" if choices else "omit --accelerator: its accelerators are fixed",
        )
    facts = get_machine_facts(machine.name, machine.cloud, accelerator)
    cells = facts.cells if facts else {}
    source_ids = sorted({identifier for cell in cells.values() for identifier in cell.source.split()})
    sources = load_catalog_sources()
    return {
        "machine": machine.name,
        "cloud": machine.cloud,
        "vcpus": machine.vcpus,
        "memory_gib": machine.memory_gib,
        "accelerators": [
            {"model": card.model, "count": card.count, "memory_gib": card.memory_gib, "share": card.share}
            for card in machine.accelerators
        ],
        "attachable": list(machine.attachable),
        "source": machine.source,
        "as_of": machine.as_of,
        "facts": [_build_fact(field, cells[field]) for field in PARSERS if field in cells],
        "sources": {
            identifier: {
                "title": sources[identifier].title,
                "address": sources[identifier].address,
                "kind": sources[identifier].kind,
            }
            for identifier in source_ids
        },
    }


def format_machine_report(report: dict[str, Any]) -> str:
    """Return the report as text: size, one line per fact, what is unknown and why, the sources."""
    return "".join(f"{line}\n" for line in _format_lines(report))


def _build_fact(field: str, cell: FactCell) -> dict[str, Any]:
    is_known = cell.value != UNKNOWN
    return {
        "field": field,
        "value": cell.value if is_known else None,
        "sources": cell.source.split(),
        "as_of": cell.as_of or None,
        "note": cell.note or None,
    }


def _format_lines(report: dict[str, Any]) -> Iterator[str]:
    cards = [f"{card['count']}x {card['model']}" for card in report["accelerators"]]
    attachable = [f"{model} can be attached" for model in report["attachable"]]
    size = [f"{report['vcpus']} vCPUs", f"{report['memory_gib']:g} GiB", *cards, *attachable]
    yield f"{report['machine']} ({report['cloud']}): {', '.join(size)}"
    known = [fact for fact in report["facts"] if fact["value"] is not None]
    unknown = [fact for fact in report["facts"] if fact["value"] is None]
    if known:
        yield ""
        width = max(len(fact["field"]) for fact in known)
        for fact in known:
            origin = f"{', '.join(fact['sources'])}, {fact['as_of']}"
            note = f"; {fact['note']}" if fact["note"] else ""
            yield f"{fact['field']:<{width}}  {fact['value']}  ({origin}{note})"
    if unknown:
        yield ""
        yield from (f"unknown: {fact['field']}: {fact['note']}" for fact in unknown)
    if report["sources"]:
        yield ""
        width = max(len(identifier) for identifier in report["sources"])
        yield from (
            f"{identifier:<{width}}  {source['title']}: {source['address']}"
            for identifier, source in report["sources"].items()
        )
