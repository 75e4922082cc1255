"""Choose a ROCm release from AMD's support grid, and its packages and repositories."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.drivers.data_file import GpuCard, RocmRelease, RocmSupport, load_rocm_releases
from gpufleet.drivers.driver_plan import PackageRepository, PlannedPackage, RocmPlan
from gpufleet.drivers.host import HostPlanContext
from gpufleet.drivers.repository import build_package_repository
from gpufleet.drivers.rule import build_refusal_error
from gpufleet.drivers.version import find_newest_version, parse_kernel_series

STREAM_TITLES = {
    "core": "amdrocm (TheRock)",
    "multi-arch": "amdrocm (TheRock)",
    "legacy": "legacy rocm",
    "distribution": "the distribution's own",
}


def choose_rocm_release(host: HostPlanContext) -> RocmRelease | None:
    """Return the requested release; raise PlanRefusedError if machine, system or a card is not in its grid."""
    releases = load_rocm_releases()
    requested = host.requested.rocm or (host.requested.branch if host.requested.branch != "auto" else None)
    if requested is None:
        return None
    if requested not in releases:
        raise build_refusal_error("rocm.unknown", rocm=requested, known=", ".join(releases))
    release = releases[requested]
    if host.facts.arch != "x86_64":
        raise build_refusal_error("rocm.arch", arch=host.facts.arch)
    _refuse_unlisted_cards(host, release)
    if host.key not in release.systems or release.stream not in host.system["amd"].get("rocm", {}):
        others = [other.release for other in releases.values() if host.key in other.systems]
        raise build_refusal_error(
            "rocm.system",
            rocm=requested,
            title=host.system_title,
            known=", ".join(release.systems),
            others=", ".join(others) or "none",
        )
    cells = [_find_cell(host, release, card) for card in dict.fromkeys(host.detected.amd)]
    _check_kernel(host, release, cells)
    if host.system["manager"] == "dnf" and host.facts.os_id != "rhel":
        host.add_plan_reason("rocm.rebuild", system=f"{host.facts.os_id} {host.facts.os_version}")
    return release


def plan_rocm_packages(host: HostPlanContext, release: RocmRelease) -> RocmPlan:
    """Return the user space: one package for each processor, or the release's packages."""
    gfx = tuple(dict.fromkeys(card.gfx for card in host.detected.amd))
    host.add_plan_reason("rocm.packages", rocm=release.release, stream=STREAM_TITLES[release.stream])
    entry = host.system["amd"]["rocm"][release.stream]
    names = tuple(
        dict.fromkeys(
            name.format(release=release.release, gfx=processor)
            for name in entry["packages"]
            for processor in gfx
        )
    )
    if len(gfx) > 1 and any("{gfx}" in name for name in entry["packages"]):
        host.add_plan_reason("rocm.mixed_gfx", gfx=", ".join(gfx))
    return RocmPlan(
        release.release,
        tuple(
            PlannedPackage(name, find_newest_version(host.offered_package_versions(name))) for name in names
        ),
        gfx,
    )


def list_rocm_repositories(host: HostPlanContext, release: RocmRelease) -> tuple[PackageRepository, ...]:
    """Return ROCm's repositories: its own, and from 7.0 on AMD's graphics libraries of the same release."""
    entry = host.system["amd"]["rocm"][release.stream]
    rows = [entry] if "uri" in entry else []
    if release.has_graphics:
        rows.append(entry["graphics"])
    return tuple(
        build_package_repository(host, row, release=release.directory, version=host.facts.os_version)
        for row in rows
    )


def suggest_release(card: GpuCard, system: str) -> str:
    """Return the releases that list a card on a system, as a remedy."""
    releases = [
        release.release
        for release in load_rocm_releases().values()
        if any(cell.system == system and cell.includes_card(card) for cell in release.support)
    ]
    if releases:
        return f"request ROCm {' or '.join(releases)}"
    return "remove rocm from the template: only Vulkan through Mesa runs on it"


def _refuse_unlisted_cards(host: HostPlanContext, release: RocmRelease) -> None:
    for card in host.detected.amd:
        if not any(cell.includes_card(card) for cell in release.support):
            raise build_refusal_error(
                "rocm.gfx",
                rocm=release.release,
                name=card.display_name,
                gfx=card.gfx,
                remedy=suggest_release(card, host.key),
            )


def _find_cell(host: HostPlanContext, release: RocmRelease, card: GpuCard) -> RocmSupport:
    """Return the cell of a card on the host's system; raise PlanRefusedError if there is none."""
    cells = [cell for cell in release.support if cell.system == host.key and cell.includes_card(card)]
    if not cells:
        raise build_refusal_error(
            "rocm.card_on_system",
            rocm=release.release,
            title=host.system_title,
            name=card.display_name,
            systems=", ".join(cell.system for cell in release.support if cell.includes_card(card)),
        )
    fitting = [cell for cell in cells if not cell.versions or host.facts.os_version in cell.versions]
    if not fitting:
        raise build_refusal_error(
            "rocm.os_version",
            rocm=release.release,
            name=card.display_name,
            system=f"{host.facts.os_id} {host.facts.os_version}",
            listed=_join_words(cell.versions for cell in cells),
        )
    return fitting[0]


def _check_kernel(host: HostPlanContext, release: RocmRelease, cells: list[RocmSupport]) -> None:
    series = ".".join(map(str, parse_kernel_series(host.facts.kernel)))
    untested = next((cell for cell in cells if cell.kernels and series not in cell.kernels), None)
    if untested is not None:
        host.add_plan_reason(
            "rocm.kernel",
            rocm=release.release,
            kernel=host.facts.kernel,
            listed=", ".join(untested.kernels),
        )


def _join_words(groups: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(dict.fromkeys(name for group in groups for name in group))
