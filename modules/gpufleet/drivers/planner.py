"""From facts and wishes to a plan. Pure: nothing is read, nothing is changed."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.drivers import amd, cards, nvidia
from gpufleet.drivers.cards import Found
from gpufleet.drivers.host import Host, describe, system_of
from gpufleet.drivers.model import Facts, Plan, Reason, Wanted
from gpufleet.drivers.rule import Refused, because, refuse


def plan(facts: Facts, wanted: Wanted) -> Plan:
    """Plan what a host needs for its cards; a refusal is a plan too, with its reason and remedy."""
    found = cards.find(facts)
    try:
        return _plan(facts, wanted, found)
    except Refused as refused:
        shown = found.nvidia + found.amd
        return Plan(
            vendor="nvidia" if found.nvidia else "amd" if found.amd else "none",
            action="refuse",
            system=describe(facts),
            cards=cards.counted(shown),
            reasons=(refused.reason,),
            refusal=refused.refusal,
        )


def _plan(facts: Facts, wanted: Wanted, found: Found) -> Plan:
    if wanted.vendor == "none":
        return _nothing(facts, found, because("vendor.none"))
    vendor, before = _vendor(wanted, found)
    if vendor == "none":
        return _nothing(facts, found, *before)
    _refuse_foreign_software(wanted, vendor, found)
    key, system = system_of(facts)
    host = Host(facts, wanted, found, key, system, list(before))
    return nvidia.plan(host) if vendor == "nvidia" else amd.plan(host)


def _vendor(wanted: Wanted, found: Found) -> tuple[str, list[Reason]]:
    """Return whose cards are planned for; the other maker's are named and left alone."""
    present = [name for name in ("nvidia", "amd") if getattr(found, name)]
    _refuse_strangers(found, present)
    if wanted.vendor in ("nvidia", "amd"):
        if wanted.vendor not in present:
            has = cards.names(found.nvidia + found.amd + found.other)
            if not has:
                raise refuse("vendor.no_card", vendor=wanted.vendor)
            raise refuse("vendor.absent", vendor=wanted.vendor, names=has)
        others = [card for name in present if name != wanted.vendor for card in getattr(found, name)]
        notes = [because("cards.other_vendor", names=cards.names(others))] if others else []
        return wanted.vendor, notes
    if len(present) > 1:
        raise refuse("cards.mixed_vendors", names=cards.names(found.nvidia + found.amd))
    if present:
        return present[0], [because("cards.unknown_beside", pci=each.id) for each in found.unknown]
    if found.other:
        return "none", [because("cards.not_managed", names=cards.names(found.other))]
    return "none", [because("cards.none")]


def _refuse_foreign_software(wanted: Wanted, vendor: str, found: Found) -> None:
    """Refuse to pass over in silence what only the other maker's cards could have."""
    foreign = {"nvidia": ("rocm",), "amd": ("cuda", "mig")}[vendor]
    for part in foreign:
        if getattr(wanted, part):
            names = cards.names(getattr(found, vendor))
            raise refuse(
                "vendor.software", part={"cuda": "CUDA", "rocm": "ROCm", "mig": "MIG"}[part], names=names
            )


def _refuse_strangers(found: Found, present: list[str]) -> None:
    """Refuse unknown cards; a server's own AMD display beside NVIDIA cards is none."""
    if "nvidia" in present and all(each.vendor == cards.AMD for each in found.unknown):
        return
    cards.refuse_unknown(found)


def _nothing(facts: Facts, found: Found, *reasons: Reason) -> Plan:
    base = Plan(vendor="none", action="none", system=describe(facts), reasons=reasons)
    return replace(base, cards=cards.counted(found.nvidia + found.amd + found.other))
