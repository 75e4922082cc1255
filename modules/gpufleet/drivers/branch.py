"""Choose the branch, kernel module and origin of NVIDIA's driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.drivers import detection
from gpufleet.drivers.data_file import (
    DriverBranch,
    GpuCard,
    load_cuda_releases,
    load_driver_branches,
    load_system_package_tables,
)
from gpufleet.drivers.host import HostPlanContext
from gpufleet.drivers.installed import InstalledDriver
from gpufleet.drivers.rule import build_refusal_error
from gpufleet.drivers.version import MAX_NUMBER_DIGITS

NO_LAST_BRANCH = 9999
KIND_TITLES = {
    "lts": "long-term support",
    "production": "production",
    "new_feature": "new features",
    "ended": "ended",
}
KIND_PREFERENCE = tuple(KIND_TITLES)


@dataclass(frozen=True)
class DriverChoice:
    """The chosen branch, kernel module and origin."""

    branch: int
    module: str
    origin: str

    def get_package_table(self, host: HostPlanContext) -> Mapping[str, Any]:
        """Return the package table of this origin for the host's system."""
        entry: Mapping[str, Any] = host.system["nvidia"][self.origin]
        return entry


def choose_nvidia_driver(
    host: HostPlanContext, installed_driver: InstalledDriver, *, fabric_manager_key: str
) -> DriverChoice:
    """Return the choice; raise PlanRefusedError with the rule that prevents one."""
    first, last = supported_driver_branch_range(host.detected.nvidia)
    kept_choice = _keep_installed(host, installed_driver, first, last, fabric_manager_key)
    if kept_choice:
        return kept_choice
    origin, number = _origin_and_branch(host, first, last, fabric_manager_key)
    module = choose_kernel_module(host, number)
    _explain_branch(host, load_driver_branches()[number])
    return DriverChoice(number, module, origin)


def supported_driver_branch_range(cards: Iterable[GpuCard]) -> tuple[int, int]:
    """Return the first and last branch that support every card."""
    unique_cards = tuple(cards)
    firsts = {
        card: max(card.first_branch or 0, detection.get_gpu_architecture(card).first_branch or 0)
        for card in unique_cards
    }
    lasts = {
        card: detection.get_gpu_architecture(card).last_branch or NO_LAST_BRANCH for card in unique_cards
    }
    newest_card, oldest_card = (
        max(firsts, key=lambda card: firsts[card]),
        min(lasts, key=lambda card: lasts[card]),
    )
    if firsts[newest_card] > lasts[oldest_card]:
        raise build_refusal_error(
            "branch.no_common",
            names=detection.format_card_names(unique_cards),
            old=oldest_card.display_name,
            last=lasts[oldest_card],
            new=newest_card.display_name,
            first=firsts[newest_card],
        )
    return firsts[newest_card], lasts[oldest_card]


def choose_kernel_module(host: HostPlanContext, branch_number: int) -> str:
    """Return the kernel module that every card supports on a branch."""
    nvidia_cards = host.detected.nvidia
    needs_open = [
        card
        for card in nvidia_cards
        if card.module == "open" or not detection.get_gpu_architecture(card).proprietary
    ]
    needs_proprietary = [card for card in nvidia_cards if not detection.get_gpu_architecture(card).open]
    if needs_open and needs_proprietary:
        raise build_refusal_error(
            "module.no_common",
            open=detection.format_card_names(needs_open),
            closed=detection.format_card_names(needs_proprietary),
        )
    required = "open" if needs_open else "proprietary" if needs_proprietary else None
    requested = None if host.requested.module == "auto" else host.requested.module
    if requested and required and requested != required:
        raise build_refusal_error(
            "module.not_for_card",
            module=requested,
            names=detection.format_card_names(needs_open or needs_proprietary),
        )
    module = requested or required or load_driver_branches()[branch_number].default_module
    if module == "proprietary" and not load_driver_branches()[branch_number].proprietary:
        raise build_refusal_error("module.removed", branch=branch_number)
    _explain_module(host, module, branch_number, needs_open, needs_proprietary)
    return module


def choose_preferred_driver_branch(branch_numbers: Iterable[int], on_date: str) -> int | None:
    """Return the preferred branch: maintained first, then long-term, production, new features, then the newest."""
    branches_by_number = load_driver_branches()
    ranked_numbers = sorted(
        branch_numbers,
        key=lambda number: (
            is_driver_branch_end_of_life(branches_by_number[number], on_date),
            KIND_PREFERENCE.index(branches_by_number[number].kind),
            -number,
        ),
    )
    return ranked_numbers[0] if ranked_numbers else None


def is_driver_branch_end_of_life(branch: DriverBranch, on_date: str) -> bool:
    """Return whether a branch is past its end of life on a day (YYYY-MM-DD); False if either is unknown."""
    if branch.kind == "ended":
        return True
    return bool(branch.end_of_life and on_date and on_date[:7] > branch.end_of_life)


def min_driver_branch_for_cuda(cuda_version: str | None) -> int:
    """Return the lowest branch that runs a CUDA release, 0 without one."""
    if cuda_version is None:
        return 0
    releases = load_cuda_releases()
    if cuda_version not in releases:
        raise build_refusal_error("cuda.unknown", cuda=cuda_version, known=", ".join(releases))
    return releases[cuda_version].min_driver


def _keep_installed(
    host: HostPlanContext, installed: InstalledDriver, first: int, last: int, fabric: str
) -> DriverChoice | None:
    """Return the installed driver as the choice if it fits and the template requests no branch."""
    number, requested = installed.branch_number, host.requested
    if (
        requested.branch != "auto"
        or number is None
        or number not in load_driver_branches()
        or not installed.version
    ):
        return None
    origin = installed.origin or "vendor"
    is_supported = first <= number <= last and number >= min_driver_branch_for_cuda(requested.cuda)
    entry = (host.system.get("nvidia") or {}).get(origin)
    if (
        not is_supported
        or entry is None
        or requested.origin not in ("auto", origin)
        or (fabric and not entry.get(fabric))
    ):
        return None
    if requested.cuda and not cuda_package_names(entry, requested.cuda):
        return None
    module = _module_to_keep(host, installed.module, number)
    _note_end(host, load_driver_branches()[number])
    return DriverChoice(number, module, origin)


def _module_to_keep(host: HostPlanContext, module: str | None, number: int) -> str:
    """Return the installed kernel module if every card supports it, else one that they support."""
    nvidia_cards = host.detected.nvidia
    accepted_by_all = {
        "open": all(detection.get_gpu_architecture(card).open for card in nvidia_cards),
        "proprietary": all(
            detection.get_gpu_architecture(card).proprietary and card.module != "open"
            for card in nvidia_cards
        ),
    }
    if module is None or host.requested.module not in ("auto", module) or not accepted_by_all[module]:
        return choose_kernel_module(host, number)
    return module


def _origin_and_branch(host: HostPlanContext, first: int, last: int, fabric: str) -> tuple[str, int]:
    min_branch = min_driver_branch_for_cuda(host.requested.cuda)
    requested = _requested_branch(host)
    usable_origins, rejected = [], []
    ended_choice: tuple[str, int] | None = None
    for origin in ("distribution", "vendor") if host.requested.origin == "auto" else (host.requested.origin,):
        missing = _describe_missing(host, origin, fabric)
        if missing:
            rejected.append(missing)
            continue
        usable_origins.append(origin)
        offered_branches = [
            number for number in list_offered_driver_branches(host, origin) if first <= number <= last
        ]
        number = requested if requested in offered_branches else None
        if requested is None:
            number = choose_preferred_driver_branch(
                (branch_number for branch_number in offered_branches if branch_number >= min_branch),
                host.facts.date,
            )
        if number is None:
            rejected.append(f"{host.system_title} has no fitting branch")
        elif _is_outdated_choice(host, number):
            ended_choice = ended_choice or (origin, number)
            rejected.append(f"{host.system_title}'s own branch {number} has ended")
        else:
            if origin == "vendor" and host.requested.origin == "auto":
                _explain_vendor(host, rejected, requested)
            return origin, number
    if ended_choice:
        return ended_choice
    raise _build_refusal(host, usable_origins, requested, first)


def _is_outdated_choice(host: HostPlanContext, number: int) -> bool:
    """Return whether the planner's own choice has ended, so that another origin is better."""
    requested = host.requested
    is_own_choice = requested.branch == "auto" and requested.origin == "auto" and requested.cuda is None
    return is_own_choice and is_driver_branch_end_of_life(load_driver_branches()[number], host.facts.date)


def list_offered_driver_branches(host: HostPlanContext, origin: str) -> tuple[int, ...]:
    """Return the branches that an origin offers for the host's system."""
    listed_branches = host.system["nvidia"][origin].get("branches")
    return (
        tuple(int(branch_number) for branch_number in listed_branches)
        if listed_branches
        else tuple(load_driver_branches())
    )


def cuda_package_names(package_table: Mapping[str, Any], cuda_version: str) -> tuple[str, ...]:
    """Return the names of a CUDA release's packages at an origin."""
    fixed_names = package_table.get("cuda", {}).get(cuda_version)
    if fixed_names:
        return tuple(fixed_names)
    major, minor = cuda_version.split(".")
    return tuple(name.format(major=major, minor=minor) for name in package_table.get("cuda_packages", ()))


def _requested_branch(host: HostPlanContext) -> int | None:
    requested = host.requested.branch
    if requested == "auto":
        return None
    if (
        not requested.isdecimal()
        or len(requested) > MAX_NUMBER_DIGITS
        or int(requested) not in load_driver_branches()
    ):
        raise build_refusal_error(
            "branch.unknown", branch=requested, known=", ".join(map(str, load_driver_branches()))
        )
    number = int(requested)
    for card in host.detected.nvidia:
        card_first, card_last = supported_driver_branch_range((card,))
        if number < card_first:
            raise build_refusal_error(
                "branch.card_too_new", name=card.display_name, first=card_first, branch=number
            )
        if number > card_last:
            kind = card.architecture
            raise build_refusal_error(
                "branch.card_too_old",
                name=card.display_name,
                architecture=kind,
                last=card_last,
                branch=number,
            )
    return number


def _describe_missing(host: HostPlanContext, origin: str, fabric: str) -> str:
    """Return what an origin is missing for this host, or an empty text."""
    entry = (host.system.get("nvidia") or {}).get(origin)
    if entry is None:
        return f"no driver packages come with {host.system_title}"
    if host.facts.arch not in entry["arch"]:
        return f"its packages are not for {host.facts.arch}"
    if fabric and not entry.get(fabric):
        return f"{host.system_title} has no fabric manager for these cards"
    if host.requested.cuda and not cuda_package_names(entry, host.requested.cuda):
        return f"{host.system_title} has no CUDA {host.requested.cuda}"
    return ""


def _build_refusal(
    host: HostPlanContext, usable_origins: list[str], requested_branch: int | None, first: int
) -> Exception:
    """Return the most specific refusal: what the requested origin is missing."""
    requested, title = host.requested, host.system_title
    origin = requested.origin if requested.origin != "auto" else "vendor"
    entry = (host.system.get("nvidia") or {}).get(origin)
    if entry is None:
        return build_refusal_error("origin.none", title=title, origin=origin, other="vendor")
    if host.facts.arch not in entry["arch"]:
        return build_refusal_error(
            "system.arch",
            origin=origin,
            title=title,
            arch=host.facts.arch,
            remedy=f"use one of: {', '.join(systems)}; or the manufacturer's image that contains the driver"
            if (systems := list_systems_of_architecture(host.facts.arch))
            else "use a machine of x86_64 or aarch64: NVIDIA has no packages for others",
        )
    if not usable_origins and requested.cuda and not cuda_package_names(entry, requested.cuda):
        known = ", ".join(entry.get("cuda", {})) or "none"
        return build_refusal_error(
            "cuda.packages", cuda=requested.cuda, origin=origin, title=title, known=known
        )
    if not usable_origins:
        remedy = "set origin: vendor" if host.has_vendor_packages else "use another system"
        return build_refusal_error(
            "fabric.no_package",
            names=detection.format_card_names(host.detected.nvidia),
            title=title,
            remedy=remedy,
        )
    offered = ", ".join(map(str, list_offered_driver_branches(host, origin)))
    remedy = "request one of those branches"
    if host.has_vendor_packages and origin != "vendor":
        remedy = f"set origin: vendor, or {remedy}"
    return build_refusal_error(
        "branch.origin",
        title=title,
        offered=offered,
        wanted=requested_branch or f"{first} or newer",
        remedy=remedy,
    )


def list_systems_of_architecture(architecture: str) -> list[str]:
    """Return the systems for which NVIDIA's repositories have packages of an architecture."""
    return [
        name
        for name, row in load_system_package_tables().items()
        if architecture in row.get("nvidia", {}).get("vendor", {}).get("arch", ())
    ]


def _explain_vendor(host: HostPlanContext, rejected: list[str], requested_branch: int | None) -> None:
    reason = rejected[0] if rejected else ""
    if requested_branch is not None and reason.endswith("no fitting branch"):
        reason = f"{host.system_title} has no branch {requested_branch}"
    host.add_plan_reason("origin.vendor", why=reason or "it was asked for")


def _explain_branch(host: HostPlanContext, branch: DriverBranch) -> None:
    if host.requested.branch != "auto":
        host.add_plan_reason("branch.wanted", branch=branch.number)
    else:
        until = f", until {branch.end_of_life}" if branch.end_of_life else ""
        host.add_plan_reason(
            "branch.chosen", branch=branch.number, kind=KIND_TITLES[branch.kind], until=until
        )
    _note_end(host, branch)


def note_end_of_life(host: HostPlanContext, number: int) -> None:
    """Add the reason that a branch has ended, if it is in the table and has."""
    if number in load_driver_branches():
        _note_end(host, load_driver_branches()[number])


def _note_end(host: HostPlanContext, branch: DriverBranch) -> None:
    if is_driver_branch_end_of_life(branch, host.facts.date):
        host.add_plan_reason(
            "branch.end_of_life",
            branch=branch.number,
            date=branch.end_of_life,
            remedy=_suggest_maintained_branch(host),
        )


def _suggest_maintained_branch(host: HostPlanContext) -> str:
    """Return which maintained branch the cards can have on this host, and from which origin."""
    first, last = supported_driver_branch_range(host.detected.nvidia)
    for origin in ("vendor", "distribution"):
        entry = host.system["nvidia"].get(origin)
        if entry is None or host.facts.arch not in entry["arch"]:
            continue
        maintained = [
            number
            for number in list_offered_driver_branches(host, origin)
            if first <= number <= last
            and not is_driver_branch_end_of_life(load_driver_branches()[number], host.facts.date)
        ]
        preferred = choose_preferred_driver_branch(maintained, host.facts.date)
        if preferred is not None:
            return f"origin: {origin} and branch {preferred} are maintained"
    return f"no repository for {host.system_title} on {host.facts.arch} has a maintained branch"


def _explain_module(
    host: HostPlanContext,
    module: str,
    number: int,
    needs_open: list[GpuCard],
    needs_proprietary: list[GpuCard],
) -> None:
    if needs_open:
        host.add_plan_reason("module.open_only", names=detection.format_card_names(needs_open))
    elif needs_proprietary and len(needs_proprietary) < len(host.detected.nvidia):
        host.add_plan_reason("module.mixed")
    elif needs_proprietary:
        host.add_plan_reason("module.proprietary_only", names=detection.format_card_names(needs_proprietary))
    elif host.requested.module == "auto":
        host.add_plan_reason("module.default", module=module, branch=number)
