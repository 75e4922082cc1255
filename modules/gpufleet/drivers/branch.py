"""Choose the branch, kernel module and origin of NVIDIA's driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.drivers import detection
from gpufleet.drivers.data_file import Card, DriverBranch, load_branches, load_cuda_releases
from gpufleet.drivers.host import HostContext
from gpufleet.drivers.installed import InstalledDriver
from gpufleet.drivers.rule import build_refusal
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

    def package_table(self, host: HostContext) -> Mapping[str, Any]:
        """Return the package table of this origin for the host's system."""
        entry: Mapping[str, Any] = host.system["nvidia"][self.origin]
        return entry


def choose_driver(host: HostContext, installed: InstalledDriver, *, fabric: str) -> DriverChoice:
    """Return the choice; raise PlanRefused with the rule that prevents one."""
    first, last = supported_branch_range(host.detected.nvidia)
    kept_choice = _keep_installed(host, installed, first, last, fabric)
    if kept_choice:
        return kept_choice
    origin, number = _origin_and_branch(host, first, last, fabric)
    module = choose_kernel_module(host, number)
    _explain_branch(host, load_branches()[number])
    return DriverChoice(number, module, origin)


def supported_branch_range(cards: Iterable[Card]) -> tuple[int, int]:
    """Return the first and last branch that support every card."""
    unique_cards = tuple(cards)
    firsts = {
        card: max(card.first_branch or 0, detection.get_architecture(card).first_branch or 0)
        for card in unique_cards
    }
    lasts = {card: detection.get_architecture(card).last_branch or NO_LAST_BRANCH for card in unique_cards}
    newest_card, oldest_card = (
        max(firsts, key=lambda card: firsts[card]),
        min(lasts, key=lambda card: lasts[card]),
    )
    if firsts[newest_card] > lasts[oldest_card]:
        raise build_refusal(
            "branch.no_common",
            names=detection.format_card_names(unique_cards),
            old=oldest_card.label,
            last=lasts[oldest_card],
            new=newest_card.label,
            first=firsts[newest_card],
        )
    return firsts[newest_card], lasts[oldest_card]


def choose_kernel_module(host: HostContext, number: int) -> str:
    """Return the kernel module that every card supports on a branch."""
    nvidia_cards = host.detected.nvidia
    needs_open = [
        card
        for card in nvidia_cards
        if card.module == "open" or not detection.get_architecture(card).proprietary
    ]
    needs_proprietary = [card for card in nvidia_cards if not detection.get_architecture(card).open]
    if needs_open and needs_proprietary:
        raise build_refusal(
            "module.no_common",
            open=detection.format_card_names(needs_open),
            closed=detection.format_card_names(needs_proprietary),
        )
    required = "open" if needs_open else "proprietary" if needs_proprietary else None
    requested = None if host.requested.module == "auto" else host.requested.module
    if requested and required and requested != required:
        raise build_refusal(
            "module.not_for_card",
            module=requested,
            names=detection.format_card_names(needs_open or needs_proprietary),
        )
    module = requested or required or load_branches()[number].default_module
    if module == "proprietary" and not load_branches()[number].proprietary:
        raise build_refusal("module.removed", branch=number)
    _explain_module(host, module, number, needs_open, needs_proprietary)
    return module


def choose_preferred_branch(branch_numbers: Iterable[int], on_date: str) -> int | None:
    """Return the preferred branch: maintained first, then long-term, production, new features, then the newest."""
    branches_by_number = load_branches()
    ranked_numbers = sorted(
        branch_numbers,
        key=lambda number: (
            is_end_of_life(branches_by_number[number], on_date),
            KIND_PREFERENCE.index(branches_by_number[number].kind),
            -number,
        ),
    )
    return ranked_numbers[0] if ranked_numbers else None


def is_end_of_life(branch: DriverBranch, on_date: str) -> bool:
    """Return whether a branch is past its end of life on a day (YYYY-MM-DD); False if either is unknown."""
    if branch.kind == "ended":
        return True
    return bool(branch.end_of_life and on_date and on_date[:7] > branch.end_of_life)


def min_branch_for_cuda(cuda_version: str | None) -> int:
    """Return the lowest branch that runs a CUDA release, 0 without one."""
    if cuda_version is None:
        return 0
    releases = load_cuda_releases()
    if cuda_version not in releases:
        raise build_refusal("cuda.unknown", cuda=cuda_version, known=", ".join(releases))
    return releases[cuda_version].min_driver


def _keep_installed(
    host: HostContext, installed: InstalledDriver, first: int, last: int, fabric: str
) -> DriverChoice | None:
    """Return the installed driver as the choice if it fits and the template requests no branch."""
    number, requested = installed.branch, host.requested
    if requested.branch != "auto" or number is None or number not in load_branches() or not installed.version:
        return None
    origin = installed.origin or "vendor"
    is_supported = first <= number <= last and number >= min_branch_for_cuda(requested.cuda)
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
    _note_end(host, load_branches()[number])
    return DriverChoice(number, module, origin)


def _module_to_keep(host: HostContext, module: str | None, number: int) -> str:
    """Return the installed kernel module if every card supports it, else one that they support."""
    nvidia_cards = host.detected.nvidia
    accepted_by_all = {
        "open": all(detection.get_architecture(card).open for card in nvidia_cards),
        "proprietary": all(
            detection.get_architecture(card).proprietary and card.module != "open" for card in nvidia_cards
        ),
    }
    if module is None or host.requested.module not in ("auto", module) or not accepted_by_all[module]:
        return choose_kernel_module(host, number)
    return module


def _origin_and_branch(host: HostContext, first: int, last: int, fabric: str) -> tuple[str, int]:
    min_branch = min_branch_for_cuda(host.requested.cuda)
    requested = _requested_branch(host)
    usable_origins, rejected = [], []
    for origin in ("distribution", "vendor") if host.requested.origin == "auto" else (host.requested.origin,):
        missing = _describe_missing(host, origin, fabric)
        if missing:
            rejected.append(missing)
            continue
        usable_origins.append(origin)
        offered_branches = [
            number for number in list_offered_branches(host, origin) if first <= number <= last
        ]
        number = requested if requested in offered_branches else None
        if requested is None:
            number = choose_preferred_branch(
                (branch_number for branch_number in offered_branches if branch_number >= min_branch),
                host.facts.date,
            )
        if number is not None:
            if origin == "vendor" and host.requested.origin == "auto":
                _explain_vendor(host, rejected, requested)
            return origin, number
        rejected.append(f"{host.title} has no fitting branch")
    raise _build_refusal(host, usable_origins, requested, first)


def list_offered_branches(host: HostContext, origin: str) -> tuple[int, ...]:
    """Return the branches that an origin offers for the host's system."""
    listed_branches = host.system["nvidia"][origin].get("branches")
    return (
        tuple(int(branch_number) for branch_number in listed_branches)
        if listed_branches
        else tuple(load_branches())
    )


def cuda_package_names(entry: Mapping[str, Any], cuda: str) -> tuple[str, ...]:
    """Return the names of a CUDA release's packages at an origin."""
    fixed_names = entry.get("cuda", {}).get(cuda)
    if fixed_names:
        return tuple(fixed_names)
    major, minor = cuda.split(".")
    return tuple(name.format(major=major, minor=minor) for name in entry.get("cuda_packages", ()))


def _requested_branch(host: HostContext) -> int | None:
    requested = host.requested.branch
    if requested == "auto":
        return None
    if (
        not requested.isdecimal()
        or len(requested) > MAX_NUMBER_DIGITS
        or int(requested) not in load_branches()
    ):
        raise build_refusal("branch.unknown", branch=requested, known=", ".join(map(str, load_branches())))
    number = int(requested)
    for card in host.detected.nvidia:
        card_first, card_last = supported_branch_range((card,))
        if number < card_first:
            raise build_refusal("branch.card_too_new", name=card.label, first=card_first, branch=number)
        if number > card_last:
            kind = card.architecture
            raise build_refusal(
                "branch.card_too_old", name=card.label, architecture=kind, last=card_last, branch=number
            )
    return number


def _describe_missing(host: HostContext, origin: str, fabric: str) -> str:
    """Return what an origin is missing for this host, or an empty text."""
    entry = (host.system.get("nvidia") or {}).get(origin)
    if entry is None:
        return f"{host.title} has no packages of its own"
    if host.facts.arch not in entry["arch"]:
        return f"its packages are not for {host.facts.arch}"
    if fabric and not entry.get(fabric):
        return f"{host.title} has no fabric manager for these cards"
    if host.requested.cuda and not cuda_package_names(entry, host.requested.cuda):
        return f"{host.title} has no CUDA {host.requested.cuda}"
    return ""


def _build_refusal(
    host: HostContext, usable_origins: list[str], requested_branch: int | None, first: int
) -> Exception:
    """Return the most specific refusal: what the requested origin is missing."""
    requested, title = host.requested, host.title
    origin = requested.origin if requested.origin != "auto" else "vendor"
    entry = (host.system.get("nvidia") or {}).get(origin)
    if entry is None:
        return build_refusal("origin.none", title=title, origin=origin, other="vendor")
    if host.facts.arch not in entry["arch"]:
        return build_refusal("system.arch", origin=origin, title=title, arch=host.facts.arch)
    if not usable_origins and requested.cuda and not cuda_package_names(entry, requested.cuda):
        known = ", ".join(entry.get("cuda", {})) or "none"
        return build_refusal("cuda.packages", cuda=requested.cuda, origin=origin, title=title, known=known)
    if not usable_origins:
        return build_refusal(
            "fabric.no_package", names=detection.format_card_names(host.detected.nvidia), title=title
        )
    offered = ", ".join(map(str, list_offered_branches(host, origin)))
    return build_refusal(
        "branch.origin", title=title, offered=offered, wanted=requested_branch or f"{first} or newer"
    )


def _explain_vendor(host: HostContext, rejected: list[str], requested_branch: int | None) -> None:
    reason = rejected[0] if rejected else ""
    if requested_branch is not None and reason.endswith("no fitting branch"):
        reason = f"{host.title} has no branch {requested_branch}"
    host.add_reason("origin.vendor", why=reason or "it was asked for")


def _explain_branch(host: HostContext, branch: DriverBranch) -> None:
    if host.requested.branch != "auto":
        host.add_reason("branch.wanted", branch=branch.number)
    else:
        until = f", until {branch.end_of_life}" if branch.end_of_life else ""
        host.add_reason("branch.chosen", branch=branch.number, kind=KIND_TITLES[branch.kind], until=until)
    _note_end(host, branch)


def _note_end(host: HostContext, branch: DriverBranch) -> None:
    if is_end_of_life(branch, host.facts.date):
        maintained = choose_preferred_branch(
            (
                number
                for number in load_branches()
                if not is_end_of_life(load_branches()[number], host.facts.date)
            ),
            host.facts.date,
        )
        remedy = (
            f"origin: vendor and branch {maintained} are maintained"
            if maintained
            else "no branch is maintained"
        )
        host.add_reason("branch.end_of_life", branch=branch.number, date=branch.end_of_life, remedy=remedy)


def _explain_module(
    host: HostContext, module: str, number: int, needs_open: list[Card], needs_proprietary: list[Card]
) -> None:
    if needs_open:
        host.add_reason("module.open_only", names=detection.format_card_names(needs_open))
    elif needs_proprietary and len(needs_proprietary) < len(host.detected.nvidia):
        host.add_reason("module.mixed")
    elif needs_proprietary:
        host.add_reason("module.proprietary_only", names=detection.format_card_names(needs_proprietary))
    elif host.requested.module == "auto":
        host.add_reason("module.default", module=module, branch=number)
