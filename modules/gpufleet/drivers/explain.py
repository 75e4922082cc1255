"""Plans as a table that people read: hosts with the same plan together, each reason with its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

COLUMNS = ("HOST", "CARDS", "DRIVER", "MODULE", "FABRIC MANAGER", "CUDA / ROCM", "RESTART")
GAP = "  "
PlanJson = Mapping[str, Any]
Fold = Callable[[Sequence[str]], str]


def as_text(plans: Mapping[str, PlanJson], fold: Fold, *, sources: bool = False) -> str:
    """Return the table, with the reasons below each line; hosts without a GPU are one line at the end."""
    groups: dict[str, list[str]] = {}
    for name, plan in plans.items():
        groups.setdefault(repr(plan), []).append(name)
    shown = [(fold(names), plans[names[0]]) for names in groups.values()]
    with_cards = [(names, plan) for names, plan in shown if plan["action"] != "none" or plan["cards"]]
    rest = [(names, plan) for names, plan in shown if plan["action"] == "none" and not plan["cards"]]
    lines = _table([(names, *_cells(plan)) for names, plan in with_cards]) if with_cards else []
    blocks = [
        [line, *_details(plan, sources=sources)]
        for line, (_, plan) in zip(lines[1:], with_cards, strict=True)
    ]
    text = [*lines[:1], *(line for block in blocks for line in block)]
    return "\n".join([*text, *(f"{names}: {plan['reasons'][0]['message']}" for names, plan in rest)])


def versions(plan: PlanJson) -> str:
    """Say what happens to the driver: the action, then and now."""
    action, before, after = plan["action"], plan["installed"], plan["version"] or plan["branch"]
    if action in ("refuse", "none"):
        return "refused" if action == "refuse" else "none"
    if plan["vendor"] == "amd" and after is None:
        return f"{action}: the kernel's own"
    if before is None or action == "keep":
        return f"{action} {after}"
    return f"{action} {before} -> {after}"


def _cells(plan: PlanJson) -> tuple[str, ...]:
    cards = ", ".join(f"{card['count']} x {card['name']}" for card in plan["cards"])
    module = plan["module"] or "-"
    if plan["origin"]:
        module = f"{module} ({plan['origin']})"
    fabric = plan["fabric_manager"]
    manager = _package(fabric["packages"][0], plan["version"]) if fabric else "-"
    reboot = plan["reboot"]
    return (cards, versions(plan), module, manager, _toolkits(plan), "yes" if reboot["needed"] else "no")


def _toolkits(plan: PlanJson) -> str:
    cuda, rocm = plan["cuda"], plan["rocm"]
    if cuda:
        return f"CUDA {cuda['version']}{' (compat)' if cuda['compat'] else ''}"
    return f"ROCm {rocm['version']}" if rocm else "-"


def _package(package: PlanJson, version: str | None) -> str:
    return str(package["version"] or version or "the driver's version")


def _details(plan: PlanJson, *, sources: bool) -> Iterable[str]:
    """Tell refusal, packages, what goes, what restarts, and every reason."""
    refusal = plan["refusal"]
    if refusal:
        yield f"    refused: {refusal['message']}"
        yield f"    remedy: {refusal['remedy']}"
    for title, key in (
        ("packages", "packages"),
        ("headers", "headers"),
        ("remove", "remove"),
        ("hold", "holds"),
    ):
        if plan[key]:
            yield f"    {title}: {', '.join(map(_name, plan[key]))}"
    if plan["repositories"]:
        yield f"    repositories: {', '.join(row['uri'] for row in plan['repositories'])}"
    if plan["reboot"]["needed"]:
        yield f"    restart: {plan['reboot']['why']}"
    for reason in () if refusal else plan["reasons"]:
        yield f"    {reason['code']}: {reason['message']}{' [' + reason['source'] + ']' if sources else ''}"


def _name(package: Any) -> str:
    if isinstance(package, str):
        return package
    return f"{package['name']}={package['version']}" if package["version"] else str(package["name"])


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in [COLUMNS, *rows]) for column in range(len(COLUMNS))]
    return [
        GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [COLUMNS, *rows]
    ]
