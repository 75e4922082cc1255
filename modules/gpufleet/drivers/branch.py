"""Which branch of NVIDIA's driver, which kind of module, from where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.drivers import cards
from gpufleet.drivers.host import Host
from gpufleet.drivers.installed import Installed
from gpufleet.drivers.rule import refuse
from gpufleet.drivers.tables import Branch, Card, branches, cuda_releases
from gpufleet.drivers.versions import LONGEST_NUMBER

FOREVER = 9999
KINDS = {
    "lts": "long-term support",
    "production": "production",
    "new_feature": "new features",
    "ended": "ended",
}
PREFERENCE = tuple(KINDS)


@dataclass(frozen=True)
class Choice:
    """The branch, the kind of module and the origin that were chosen."""

    branch: int
    module: str
    origin: str

    def entry(self, host: Host) -> Mapping[str, Any]:
        """Return the tables' entry for this origin on the host's system."""
        entry: Mapping[str, Any] = host.system["nvidia"][self.origin]
        return entry


def choose(host: Host, installed: Installed, *, fabric: str) -> Choice:
    """Choose, or refuse with the rule that stands in the way."""
    first, last = span(host.found.nvidia)
    kept = _keep(host, installed, first, last, fabric)
    if kept:
        return kept
    origin, number = _origin_and_branch(host, first, last, fabric)
    module = module_for(host, number)
    _explain_branch(host, branches()[number])
    return Choice(number, module, origin)


def span(found: Iterable[Card]) -> tuple[int, int]:
    """Return the first and last branch that support every card."""
    listed = tuple(found)
    firsts = {
        card: max(card.first_branch or 0, cards.architecture(card).first_branch or 0) for card in listed
    }
    lasts = {card: cards.architecture(card).last_branch or FOREVER for card in listed}
    new, old = max(firsts, key=lambda card: firsts[card]), min(lasts, key=lambda card: lasts[card])
    if firsts[new] > lasts[old]:
        raise refuse(
            "branch.no_common",
            names=cards.names(listed),
            old=old.label,
            last=lasts[old],
            new=new.label,
            first=firsts[new],
        )
    return firsts[new], lasts[old]


def module_for(host: Host, number: int) -> str:
    """Return the kind of module that every card takes on a branch."""
    found = host.found.nvidia
    needs_open = [card for card in found if card.module == "open" or not cards.architecture(card).proprietary]
    needs_closed = [card for card in found if not cards.architecture(card).open]
    if needs_open and needs_closed:
        raise refuse("module.no_common", open=cards.names(needs_open), closed=cards.names(needs_closed))
    forced = "open" if needs_open else "proprietary" if needs_closed else None
    asked = None if host.wanted.module == "auto" else host.wanted.module
    if asked and forced and asked != forced:
        raise refuse("module.not_for_card", module=asked, names=cards.names(needs_open or needs_closed))
    module = asked or forced or branches()[number].default_module
    if module == "proprietary" and not branches()[number].proprietary:
        raise refuse("module.removed", branch=number)
    _explain_module(host, module, number, needs_open, needs_closed)
    return module


def best(numbers: Iterable[int], date: str) -> int | None:
    """Return the branch to prefer: alive, long-term before production before new features, then the newest."""
    known = branches()
    ranked = sorted(
        numbers,
        key=lambda number: (ended(known[number], date), PREFERENCE.index(known[number].kind), -number),
    )
    return ranked[0] if ranked else None


def ended(branch: Branch, date: str) -> bool:
    """Tell whether NVIDIA has ended a branch by this day (YYYY-MM-DD); unknown days count for nothing."""
    if branch.kind == "ended":
        return True
    return bool(branch.end_of_life and date and date[:7] > branch.end_of_life)


def least_for_cuda(cuda: str | None) -> int:
    """Return the least branch that runs a CUDA release."""
    if cuda is None:
        return 0
    releases = cuda_releases()
    if cuda not in releases:
        raise refuse("cuda.unknown", cuda=cuda, known=", ".join(releases))
    return releases[cuda].least_driver


def _keep(host: Host, installed: Installed, first: int, last: int, fabric: str) -> Choice | None:
    """Keep what is installed where the template leaves the choice and it fits: cloud images carry drivers."""
    number, wanted = installed.branch, host.wanted
    if wanted.branch != "auto" or number is None or number not in branches() or not installed.version:
        return None
    origin = installed.origin or "vendor"
    fits = first <= number <= last and number >= least_for_cuda(wanted.cuda)
    entry = (host.system.get("nvidia") or {}).get(origin)
    if (
        not fits
        or entry is None
        or wanted.origin not in ("auto", origin)
        or (fabric and not entry.get(fabric))
    ):
        return None
    if wanted.cuda and not cuda_names(entry, wanted.cuda):
        return None
    module = _kept_module(host, installed.module, number)
    _note_end(host, branches()[number])
    return Choice(number, module, origin)


def _kept_module(host: Host, module: str | None, number: int) -> str:
    """Return the installed kind where every card takes it, else the kind that they take."""
    found = host.found.nvidia
    takes = {
        "open": all(cards.architecture(card).open for card in found),
        "proprietary": all(cards.architecture(card).proprietary and card.module != "open" for card in found),
    }
    if module is None or host.wanted.module not in ("auto", module) or not takes[module]:
        return module_for(host, number)
    return module


def _origin_and_branch(host: Host, first: int, last: int, fabric: str) -> tuple[str, int]:
    least = least_for_cuda(host.wanted.cuda)
    asked = _asked(host)
    found, passed_over = [], []
    for origin in ("distribution", "vendor") if host.wanted.origin == "auto" else (host.wanted.origin,):
        why = _lacks(host, origin, fabric)
        if why:
            passed_over.append(why)
            continue
        found.append(origin)
        offered = [number for number in offers(host, origin) if first <= number <= last]
        number = asked if asked in offered else None
        if asked is None:
            number = best((each for each in offered if each >= least), host.facts.date)
        if number is not None:
            if origin == "vendor" and host.wanted.origin == "auto":
                _explain_vendor(host, passed_over, asked)
            return origin, number
        passed_over.append(f"{host.title} has no fitting branch")
    raise _nothing(host, found, asked, first)


def offers(host: Host, origin: str) -> tuple[int, ...]:
    """Return the branches that an origin has for the host's system."""
    own = host.system["nvidia"][origin].get("branches")
    return tuple(int(each) for each in own) if own else tuple(branches())


def cuda_names(entry: Mapping[str, Any], cuda: str) -> tuple[str, ...]:
    """Return the names of a CUDA release's packages at an origin."""
    fixed = entry.get("cuda", {}).get(cuda)
    if fixed:
        return tuple(fixed)
    major, minor = cuda.split(".")
    return tuple(name.format(major=major, minor=minor) for name in entry.get("cuda_packages", ()))


def _asked(host: Host) -> int | None:
    wanted = host.wanted.branch
    if wanted == "auto":
        return None
    if not wanted.isdecimal() or len(wanted) > LONGEST_NUMBER or int(wanted) not in branches():
        raise refuse("branch.unknown", branch=wanted, known=", ".join(map(str, branches())))
    number = int(wanted)
    for card in host.found.nvidia:
        own_first, own_last = span((card,))
        if number < own_first:
            raise refuse("branch.card_too_new", name=card.label, first=own_first, branch=number)
        if number > own_last:
            kind = card.architecture
            raise refuse(
                "branch.card_too_old", name=card.label, architecture=kind, last=own_last, branch=number
            )
    return number


def _lacks(host: Host, origin: str, fabric: str) -> str:
    """Say what an origin lacks for this host; empty: nothing."""
    entry = (host.system.get("nvidia") or {}).get(origin)
    if entry is None:
        return f"{host.title} has no packages of its own"
    if host.facts.arch not in entry["arch"]:
        return f"its packages are not for {host.facts.arch}"
    if fabric and not entry.get(fabric):
        return f"{host.title} has no fabric manager for these cards"
    if host.wanted.cuda and not cuda_names(entry, host.wanted.cuda):
        return f"{host.title} has no CUDA {host.wanted.cuda}"
    return ""


def _nothing(host: Host, found: list[str], asked: int | None, first: int) -> Exception:
    """Return the refusal that says most: what the one origin that was asked for lacks."""
    wanted, title = host.wanted, host.title
    origin = wanted.origin if wanted.origin != "auto" else "vendor"
    entry = (host.system.get("nvidia") or {}).get(origin)
    if entry is None:
        return refuse("origin.none", title=title, origin=origin, other="vendor")
    if host.facts.arch not in entry["arch"]:
        return refuse("system.arch", origin=origin, title=title, arch=host.facts.arch)
    if not found and wanted.cuda and not cuda_names(entry, wanted.cuda):
        known = ", ".join(entry.get("cuda", {})) or "none"
        return refuse("cuda.packages", cuda=wanted.cuda, origin=origin, title=title, known=known)
    if not found:
        return refuse("fabric.no_package", names=cards.names(host.found.nvidia), title=title)
    offered = ", ".join(map(str, offers(host, origin)))
    return refuse("branch.origin", title=title, offered=offered, wanted=asked or f"{first} or newer")


def _explain_vendor(host: Host, passed_over: list[str], asked: int | None) -> None:
    why = passed_over[0] if passed_over else ""
    if asked is not None and why.endswith("no fitting branch"):
        why = f"{host.title} has no branch {asked}"
    host.because("origin.vendor", why=why or "it was asked for")


def _explain_branch(host: Host, branch: Branch) -> None:
    if host.wanted.branch != "auto":
        host.because("branch.wanted", branch=branch.number)
    else:
        until = f", until {branch.end_of_life}" if branch.end_of_life else ""
        host.because("branch.chosen", branch=branch.number, kind=KINDS[branch.kind], until=until)
    _note_end(host, branch)


def _note_end(host: Host, branch: Branch) -> None:
    if ended(branch, host.facts.date):
        alive = best(
            (each for each in branches() if not ended(branches()[each], host.facts.date)), host.facts.date
        )
        remedy = f"origin: vendor and branch {alive} are maintained" if alive else "no branch is maintained"
        host.because("branch.end_of_life", branch=branch.number, date=branch.end_of_life, remedy=remedy)


def _explain_module(
    host: Host, module: str, number: int, needs_open: list[Card], needs_closed: list[Card]
) -> None:
    if needs_open:
        host.because("module.open_only", names=cards.names(needs_open))
    elif needs_closed and len(needs_closed) < len(host.found.nvidia):
        host.because("module.mixed")
    elif needs_closed:
        host.because("module.proprietary_only", names=cards.names(needs_closed))
    elif host.wanted.module == "auto":
        host.because("module.default", module=module, branch=number)
