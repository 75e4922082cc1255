"""What a Radeon or Instinct card needs of the kernel's own amdgpu: the kernel, its firmware files, Mesa."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpufleet.drivers.data_file import AmdProcessor, GpuCard, load_amd_firmware, load_amd_processors
from gpufleet.drivers.driver_plan import PlannedPackage
from gpufleet.drivers.host import HostPlanContext
from gpufleet.drivers.rule import build_refusal_error
from gpufleet.drivers.version import parse_kernel_series, version_sort_key

# Ubuntu moved the files out of linux-firmware into this package; if it is offered, its version decides.
SPLIT_FIRMWARE = "linux-firmware-amd-graphics"
UPDATES = "install the system's updates, or use a newer release"
FIRMWARE_VERSION = re.compile(r"(?:\d+:)?(\d{8})(?:\.git[0-9a-f]{1,40})?[.-]([^~+]*)")


def check_kernel_driver(host: HostPlanContext, packages: Iterable[PlannedPackage]) -> None:
    """Raise PlanRefusedError if kernel or firmware is older than a card; add a reason if Mesa is.

    Only what was measured is judged: a version between the last that lacks a card and the first that has it is not.
    """
    versions = {package.name: package.version for package in packages}
    for card in dict.fromkeys(host.detected.amd):
        processor = load_amd_processors().get(card.gfx)
        if processor is not None:
            _check_kernel(host, card, processor)
            _check_firmware(host, card, processor, versions)
            _check_mesa(host, card, processor, versions)


def is_kernel_too_old(host: HostPlanContext) -> bool:
    """Return whether amdgpu of the running kernel does not know one of the cards."""
    processors = [load_amd_processors().get(card.gfx) for card in host.detected.amd]
    return any(processor is not None and _is_older_than(host, processor) for processor in processors)


def _is_older_than(host: HostPlanContext, processor: AmdProcessor) -> bool:
    # Enterprise kernels carry amdgpu of a newer kernel than their number says.
    if host.system["manager"] != "apt" or not processor.kernel_without:
        return False
    return parse_kernel_series(host.facts.kernel) <= parse_kernel_series(processor.kernel_without)


def _check_kernel(host: HostPlanContext, card: GpuCard, processor: AmdProcessor) -> None:
    if _is_older_than(host, processor):
        raise build_refusal_error(
            "amd.kernel_old",
            processor.sources[0],
            name=card.display_name,
            gfx=card.gfx,
            kernel=host.facts.kernel,
            least=processor.kernel_with,
            newer=host.system["amd"]["distribution"].get("newer", UPDATES),
        )


def _check_firmware(
    host: HostPlanContext, card: GpuCard, processor: AmdProcessor, versions: dict[str, str | None]
) -> None:
    if processor.firmware in (host.facts.firmware or ()):
        return
    entry = host.system["amd"]["distribution"]
    name = str(entry["packages"][0])
    version = versions.get(name)
    split = host.facts.packages.get(SPLIT_FIRMWARE) or next(
        iter(host.offered_package_versions(SPLIT_FIRMWARE)), None
    )
    if split:
        name, version = SPLIT_FIRMWARE, split
    is_missing = (
        processor.firmware in entry.get("firmware_lacks", ())
        if version is None
        else is_firmware_missing(host.distribution, version, processor.firmware)
    )
    if is_missing:
        raise build_refusal_error(
            "amd.firmware_old",
            processor.sources[-1] if version is None else processor.sources[0],
            name=card.display_name,
            firmware=f"amdgpu/{processor.firmware}_*.bin",
            package=f"{name} {version}" if version else f"{name} of {host.system_title}",
            newer=entry.get("newer", UPDATES),
        )


def is_firmware_missing(distribution: str, version: str, firmware: str) -> bool:
    """Return whether a version of a firmware package is known to lack files: so does the next one that was read."""
    key = _firmware_sort_key(version)
    if key is None:
        return False
    newer = [
        row
        for row in load_amd_firmware()
        if row.distribution == distribution and (_firmware_sort_key(row.version) or key) >= key
    ]
    oldest = min(newer, key=lambda row: _firmware_sort_key(row.version) or key, default=None)
    return oldest is not None and firmware not in oldest.contains


def _firmware_sort_key(version: str) -> tuple[int, tuple[int, ...]] | None:
    """Return date and revision: 20240318.git3b128b60-0ubuntu2.10; None for other forms."""
    match = FIRMWARE_VERSION.match(version)
    if match is None:
        return None
    return int(match[1]), tuple(int(part) for part in re.findall(r"\d{1,18}", match[2]))


def _check_mesa(
    host: HostPlanContext, card: GpuCard, processor: AmdProcessor, versions: dict[str, str | None]
) -> None:
    version = versions.get("mesa-vulkan-drivers")
    if (
        version
        and processor.mesa_without
        and version_sort_key(version) <= version_sort_key(processor.mesa_without)
    ):
        host.add_sourced_reason(
            "amd.mesa_old",
            "radv-processors",
            name=card.display_name,
            gfx=card.gfx,
            version=version,
            least=processor.mesa_with,
            newer=host.system["amd"]["distribution"].get("newer", UPDATES),
        )
