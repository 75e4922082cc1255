"""Plan the drivers of a host from its facts and the requested software. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpufleet.drivers import amd, detection, nvidia
from gpufleet.drivers.data_file import GpuCard
from gpufleet.drivers.detection import DetectedCards
from gpufleet.drivers.driver_plan import DriverPlan, HostFacts, PlanReason, RequestedSoftware
from gpufleet.drivers.host import HostPlanContext, describe_operating_system, find_system_package_table
from gpufleet.drivers.rule import PlanRefusedError, build_plan_reason, build_refusal_error


def plan_drivers(
    facts: HostFacts, requested_software: RequestedSoftware, site_cards: Iterable[GpuCard] = ()
) -> DriverPlan:
    """Return the plan for a host's cards; a refusal is also a plan, with reason and remedy.

    ``site_cards`` are those of the site's own table.
    """
    detected = detection.detect_gpu_cards(facts, site_cards)
    try:
        return _plan_vendor(facts, requested_software, detected)
    except PlanRefusedError as refusal:
        cards_shown = detected.nvidia + detected.amd
        return DriverPlan(
            vendor="nvidia" if detected.nvidia else "amd" if detected.amd else "none",
            action="refuse",
            system=describe_operating_system(facts),
            cards=detection.count_cards_by_kind(cards_shown),
            reasons=(refusal.reason, *refusal.notes),
            refusal=refusal.refusal,
        )


def _plan_vendor(facts: HostFacts, requested: RequestedSoftware, detected: DetectedCards) -> DriverPlan:
    if requested.vendor == "none":
        return _empty_plan(facts, detected, build_plan_reason("vendor.none"))
    vendor, notes = _choose_vendor(requested, detected)
    if vendor == "none":
        return _empty_plan(facts, detected, *notes)
    _refuse_foreign_software(requested, vendor, detected)
    key, system = find_system_package_table(facts)
    host = HostPlanContext(facts, requested, detected, key, system, list(notes))
    try:
        return nvidia.plan_nvidia_driver(host) if vendor == "nvidia" else amd.plan_amd_driver(host)
    except (
        PlanRefusedError
    ) as refusal:  # a second trouble would otherwise show only after the first is repaired
        refusal.notes = tuple(reason for reason in host.reasons if reason.code == "driver.kernel_reported")
        raise


def _choose_vendor(requested: RequestedSoftware, detected: DetectedCards) -> tuple[str, list[PlanReason]]:
    """Return the vendor to plan for, with notes about cards of other vendors."""
    present = [name for name in ("nvidia", "amd") if getattr(detected, name)]
    _refuse_unknown_cards(detected, present)
    if requested.vendor in ("nvidia", "amd"):
        if requested.vendor not in present:
            card_names = detection.format_card_names(detected.nvidia + detected.amd + detected.other)
            if not card_names:
                raise build_refusal_error("vendor.no_card", vendor=requested.vendor)
            raise build_refusal_error("vendor.absent", vendor=requested.vendor, names=card_names)
        other_cards = [
            card for name in present if name != requested.vendor for card in getattr(detected, name)
        ]
        notes = (
            [build_plan_reason("cards.other_vendor", names=detection.format_card_names(other_cards))]
            if other_cards
            else []
        )
        return requested.vendor, notes
    if len(present) > 1:
        raise build_refusal_error(
            "cards.mixed_vendors", names=detection.format_card_names(detected.nvidia + detected.amd)
        )
    if present:
        return present[0], [
            build_plan_reason("cards.unknown_beside", pci=device.pci_id) for device in detected.unknown
        ]
    if detected.other:
        return "none", [
            build_plan_reason("cards.not_managed", names=detection.format_card_names(detected.other))
        ]
    return "none", [build_plan_reason("cards.none")]


def _refuse_foreign_software(requested: RequestedSoftware, vendor: str, detected: DetectedCards) -> None:
    """Raise PlanRefusedError for requested software that only another vendor's cards support."""
    foreign = {"nvidia": ("rocm",), "amd": ("cuda", "mig")}[vendor]
    for part in foreign:
        if getattr(requested, part):
            names = detection.format_card_names(getattr(detected, vendor))
            raise build_refusal_error(
                "vendor.software", part={"cuda": "CUDA", "rocm": "ROCm", "mig": "MIG"}[part], names=names
            )


def _refuse_unknown_cards(detected: DetectedCards, present: list[str]) -> None:
    """Raise PlanRefusedError for unknown cards; a server's AMD display next to NVIDIA cards is allowed."""
    if "nvidia" in present and all(device.vendor == detection.AMD for device in detected.unknown):
        return
    detection.refuse_unknown_cards(detected)


def _empty_plan(facts: HostFacts, detected: DetectedCards, *reasons: PlanReason) -> DriverPlan:
    base = DriverPlan(vendor="none", action="none", system=describe_operating_system(facts), reasons=reasons)
    return replace(base, cards=detection.count_cards_by_kind(detected.nvidia + detected.amd + detected.other))
