"""Format plans as a table: hosts with the same plan in one row, each reason with its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpufleet.text_table import align_columns

COLUMNS = ("HOST", "CARDS", "DRIVER", "MODULE", "FABRIC MANAGER", "CUDA / ROCM", "RESTART")
PlanJson = Mapping[str, Any]
FoldNames = Callable[[Sequence[str]], str]


def format_driver_plans(
    plans: Mapping[str, PlanJson], fold_names: FoldNames, *, show_sources: bool = False
) -> str:
    """Return the table with the reasons below each row; hosts without a GPU are one line at the end."""
    groups: dict[str, list[str]] = {}
    for name, plan in plans.items():
        groups.setdefault(repr(plan), []).append(name)
    folded_plans = [(fold_names(names), plans[names[0]]) for names in groups.values()]
    with_cards = [(names, plan) for names, plan in folded_plans if plan["action"] != "none" or plan["cards"]]
    plans_without_cards = [
        (names, plan) for names, plan in folded_plans if plan["action"] == "none" and not plan["cards"]
    ]
    lines = (
        align_columns(COLUMNS, [(names, *_format_cells(plan)) for names, plan in with_cards])
        if with_cards
        else []
    )
    blocks = [
        [line, *_format_details(plan, sources=show_sources)]
        for line, (_, plan) in zip(lines[1:], with_cards, strict=True)
    ]
    text = [*lines[:1], *(line for block in blocks for line in block)]
    return "\n".join(
        [*text, *(f"{names}: {plan['reasons'][0]['message']}" for names, plan in plans_without_cards)]
    )


def format_driver_change(plan: PlanJson) -> str:
    """Return the action on the driver with the versions before and after."""
    action, installed, target = plan["action"], plan["installed"], plan["version"] or plan["branch"]
    if action in ("refuse", "none"):
        return "refused" if action == "refuse" else "none"
    if _has_driver_of_kernel(plan):
        return f"{action}: the kernel's own"
    if installed is None or action == "keep":
        return f"{action} {target}"
    return f"{action} {installed} -> {target}"


def _has_driver_of_kernel(plan: PlanJson) -> bool:
    return bool(plan["vendor"] == "amd" and (plan["version"] or plan["branch"]) is None)


def _format_cells(plan: PlanJson) -> tuple[str, ...]:
    cards = ", ".join(f"{card['count']} x {card['name']}" for card in plan["cards"])
    module = plan["module"] or "-"
    if plan["origin"] and not _has_driver_of_kernel(plan):  # then the origin is that of other packages
        module = f"{module} ({plan['origin']})"
    fabric = plan["fabric_manager"]
    manager = _format_package_version(fabric["packages"][0], plan["version"]) if fabric else "-"
    reboot = plan["reboot"]
    return (
        cards,
        format_driver_change(plan),
        module,
        manager,
        _format_toolkits(plan),
        "yes" if reboot["needed"] else "no",
    )


def _format_toolkits(plan: PlanJson) -> str:
    cuda, rocm = plan["cuda"], plan["rocm"]
    if cuda:
        return f"CUDA {cuda['version']}{' (compat)' if cuda['compat'] else ''}"
    return f"ROCm {rocm['version']}" if rocm else "-"


def _format_package_version(package: PlanJson, version: str | None) -> str:
    return str(package["version"] or version or "the driver's version")


def _format_details(plan: PlanJson, *, sources: bool) -> Iterable[str]:
    """Yield refusal, packages, removals, restart and reasons."""
    refusal = plan["refusal"]
    if refusal:
        yield f"    refused: {refusal['message']}"
        yield f"    remedy: {refusal['remedy']}"
    for title, packages in (
        ("first", plan["prerequisites"]),
        ("module streams", plan["streams"]),
        ("packages", _list_packages(plan)),
        ("headers", plan["headers"]),
        ("remove", plan["remove"]),
        ("hold", plan["holds"]),
    ):
        if packages:
            yield f"    {title}: {', '.join(map(_format_package, packages))}"
    if plan["repositories"]:
        yield f"    repositories: {', '.join(row['uri'] for row in plan['repositories'])}"
    if plan["reboot"]["needed"]:
        yield f"    restart: {plan['reboot']['reason']}"
    for reason in () if refusal else plan["reasons"]:
        yield f"    {reason['code']}: {reason['message']}{' [' + reason['source'] + ']' if sources else ''}"


def _list_packages(plan: PlanJson) -> list[Any]:
    """Return the packages of the driver and of all that is planned with it."""
    fabric, cuda, rocm = (plan[part] or {} for part in ("fabric_manager", "cuda", "rocm"))
    parts = (plan["packages"], fabric.get("packages"), cuda.get("packages"), cuda.get("compat"))
    return [package for part in (*parts, rocm.get("packages"), plan["gpudirect"]) for package in part or ()]


def _format_package(package: Any) -> str:
    if isinstance(package, str):
        return package
    return f"{package['name']}={package['version']}" if package["version"] else str(package["name"])
