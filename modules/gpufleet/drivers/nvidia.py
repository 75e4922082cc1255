"""Plan the software for NVIDIA cards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.drivers import (
    branch,
    cuda,
    detection,
    gpudirect,
    installed,
    kernel,
    mig,
    module_build,
    package_choice,
)
from gpufleet.drivers.branch import DriverChoice
from gpufleet.drivers.data_file import GpuCard
from gpufleet.drivers.driver_plan import Action, DriverPlan, FabricManagerPlan
from gpufleet.drivers.host import HostPlanContext, describe_operating_system
from gpufleet.drivers.installed import InstalledDriver
from gpufleet.drivers.package_choice import DriverPackageSet
from gpufleet.drivers.rule import build_refusal_error
from gpufleet.drivers.version import (
    find_newest_version,
    parse_driver_branch,
    parse_upstream_version,
    version_sort_key,
)
from gpufleet.errors import InputError

MAX_BRANCH = 1000  # above every branch; packages of kernel modules carry the kernel's version
MIG_REMEDY = "write it as section MIG of docs/driver-upgrades.md shows"
IMEX = "imex"  # its packages follow the driver's version, like those of the fabric manager
FABRIC_UNITS = {IMEX: ("nvidia-imex.service",)}
CARDS_PER_NVSWITCH_BOARD = 8  # cards on a board with NVSwitches; smaller boards have none


@dataclass(frozen=True)
class DriverChange:
    """The action on the driver, and the packages to remove first."""

    action: Action
    remove: tuple[str, ...] = ()


def plan_nvidia_driver(host: HostPlanContext) -> DriverPlan:
    """Return the plan: driver, fabric manager, CUDA, MIG check, headers, signing, reboot."""
    nvidia_cards = host.detected.nvidia
    _refuse_system(host)
    fabric = choose_fabric_manager_key(host)
    installed_driver = _read_installed(host)
    if installed_driver.is_unpackaged:
        return _plan_unmanaged(host, installed_driver)
    choice = branch.choose_nvidia_driver(host, installed_driver, fabric_manager_key=fabric)
    package_set, change = _choose_target(host, installed_driver, choice, fabric)
    module_build.check_module_build(
        host, installed_driver, choice, package_set, is_kept=change.action == "keep"
    )
    package_choice.check_module_kernel(host, package_set.packages, is_kept=change.action == "keep")
    _check_mig(host, package_set.version)
    toolkit = cuda.plan_cuda_toolkit(host, choice)
    gpudirect_packages = gpudirect.plan_gpudirect_packages(host, choice)
    has_no_kernel = kernel.is_container_without_kernel(host)
    needs_build = choice.get_package_table(host)["module"] == "dkms"
    headers = kernel.choose_kernel_header_packages(host) if needs_build and not has_no_kernel else ()
    signed = "none" if has_no_kernel else kernel.choose_module_signing(host, is_built_on_host=needs_build)
    changes = change.action != "keep"
    _add_notes(host, installed_driver, package_set, choice)
    return DriverPlan(
        vendor="nvidia",
        action=change.action,
        system=describe_operating_system(host.facts),
        cards=detection.count_cards_by_kind(nvidia_cards),
        branch=str(choice.branch),
        version=package_set.version,
        installed=installed_driver.version,
        module="open" if choice.module == "open" else "proprietary",
        origin="vendor" if choice.origin == "vendor" else "distribution",
        prerequisites=tuple(choice.get_package_table(host).get("prerequisites", ())),
        repositories=package_choice.list_nvidia_repositories(host, choice),
        streams=package_choice.list_dnf_module_streams(host, choice),
        packages=package_set.packages,
        remove=change.remove,
        holds=tuple(
            package.name for package in (*package_set.packages, *package_set.fabric, *gpudirect_packages)
        ),
        headers=headers,
        fabric_manager=FabricManagerPlan(
            package_set.fabric, FABRIC_UNITS.get(fabric, ("nvidia-fabricmanager.service",))
        )
        if fabric
        else None,
        gpudirect=gpudirect_packages,
        cuda=toolkit,
        module_signing=signed,
        blacklist=("nouveau",),
        reboot=kernel.plan_reboot(
            host, installed_driver, package_set.version, has_changes=changes, signing=signed
        ),
        reasons=tuple(host.reasons),
    )


def choose_fabric_manager_key(host: HostPlanContext) -> str:
    """Return the table key of the fabric manager's packages; empty if none is needed."""
    nvidia_cards, switches = host.detected.nvidia, host.detected.switches
    cards_by_fabric = {card.fabric: card for card in nvidia_cards if card.fabric}
    if "rack" in cards_by_fabric:
        name = cards_by_fabric["rack"].display_name
        if "imex" not in host.requested.parts:
            host.add_plan_reason("fabric.rack", name=name)
            return ""
        if not any(table.get(IMEX) for table in host.system["nvidia"].values()):
            raise build_refusal_error("imex.no_package", title=host.system_title)
        host.add_plan_reason("imex.needed", name=name)
        return IMEX
    if "imex" in host.requested.parts:
        raise build_refusal_error("imex.no_rack", names=detection.format_card_names(nvidia_cards))
    for kind, fabric_key in (("nvlink5", "fabric_manager_nvlink5"), ("nvswitch", "fabric_manager")):
        if kind in cards_by_fabric:
            return _fabric_key_of_board(host, cards_by_fabric[kind], switches, fabric_key)
    return ""


def _fabric_key_of_board(host: HostPlanContext, card: GpuCard, switches: int, fabric_key: str) -> str:
    count = sum(other == card for other in host.detected.nvidia)
    if not switches and count < CARDS_PER_NVSWITCH_BOARD:
        host.add_plan_reason("fabric.not_seen", count=count, name=card.display_name)
        return ""
    reason = (
        f"{switches} NVSwitches on the bus"
        if switches
        else f"{count} {card.display_name} on an NVSwitch board"
    )
    host.add_plan_reason("fabric.needed", why=reason)
    if fabric_key == "fabric_manager_nvlink5":
        host.add_plan_reason("fabric.subnet_manager")
    return fabric_key


def _refuse_system(host: HostPlanContext) -> None:
    if host.facts.raspberry:
        raise build_refusal_error("system.raspberry")
    if "nvidia" not in host.system:
        raise build_refusal_error("origin.none", title=host.system_title, origin="any origin", other="vendor")


def _read_installed(host: HostPlanContext) -> InstalledDriver:
    distribution_branches = host.system["nvidia"].get("distribution", {}).get("branches", ())
    return installed.read_installed_driver(host.facts, tuple(int(number) for number in distribution_branches))


def _choose_target(
    host: HostPlanContext, installed_driver: InstalledDriver, choice: DriverChoice, fabric: str
) -> tuple[DriverPackageSet, DriverChange]:
    """Return the target packages and the change from the installed ones."""
    is_same = (
        installed_driver.version
        and installed_driver.branch_number == choice.branch
        and installed_driver.origin in (None, choice.origin)
    )
    is_same = bool(is_same and installed_driver.module in (None, choice.module))
    if is_same and installed_driver.version and host.requested.branch == "auto":
        host.add_plan_reason("driver.kept", version=installed_driver.version)
        return package_choice.keep_installed_packages(
            host, choice, fabric, installed_driver.version
        ), DriverChange("keep")
    package_set = package_choice.choose_driver_packages(host, choice, fabric)
    if is_same and installed_driver.version and package_set.version in (None, installed_driver.version):
        host.add_plan_reason("driver.kept", version=installed_driver.version)
        return package_choice.keep_installed_packages(
            host, choice, fabric, installed_driver.version
        ), DriverChange("keep")
    remove = installed.find_conflicting_packages(
        installed_driver.packages, choice.origin, choice.module, choice.branch
    )
    new_names = {package.name for package in (*package_set.packages, *package_set.fabric)}
    fabric_names = [
        package.name for package in installed_driver.packages if package.part == "fabric"
    ]  # two share their files
    remove = tuple(name for name in sorted({*remove, *fabric_names}) if name not in new_names)
    if remove:
        host.add_plan_reason("driver.remove_first", names=", ".join(remove))
    if installed_driver.module and installed_driver.module != choice.module:
        host.add_plan_reason("module.switch", before=installed_driver.module, after=choice.module)
    return package_set, DriverChange(_choose_action(installed_driver, choice, package_set), remove)


def _choose_action(
    installed_driver: InstalledDriver, choice: DriverChoice, package_set: DriverPackageSet
) -> Action:
    if installed_driver.version is None:
        return "install"
    target = package_set.version or str(choice.branch)
    before, after = version_sort_key(installed_driver.version), version_sort_key(target)
    before = before if package_set.version else before[:1]
    if after == before:
        return "install"
    return "upgrade" if after > before else "downgrade"


def _check_mig(host: HostPlanContext, version: str | None) -> None:
    if not host.requested.mig:
        return
    geometry = _resolve_geometry(host)
    for card in (host.detected.nvidia[row["index"]] for row in geometry if row["enabled"]):
        if not card.mig_driver:
            raise build_refusal_error("mig.unsupported", name=card.display_name)
        if version and version_sort_key(version) < version_sort_key(card.mig_driver):
            raise build_refusal_error(
                "mig.driver", name=card.display_name, least=card.mig_driver, version=version
            )


def _resolve_geometry(host: HostPlanContext) -> list[dict[str, Any]]:
    unsupported_card = next((card for card in host.detected.nvidia if not card.mig_driver), None)
    try:
        return mig.resolve_mig_geometry(
            host.requested.mig, [card.pci.partition(":")[2] for card in host.detected.nvidia]
        )
    except InputError as error:
        if unsupported_card is not None:
            raise build_refusal_error("mig.unsupported", name=unsupported_card.display_name) from error
        raise build_refusal_error(
            "mig.geometry", problem=error.problem, remedy=error.remedy or MIG_REMEDY
        ) from error


def _add_notes(
    host: HostPlanContext,
    installed_driver: InstalledDriver,
    package_set: DriverPackageSet,
    choice: DriverChoice,
) -> None:
    """Add notes on the choice."""
    facts = host.facts
    components = choice.get_package_table(host).get("components")
    if components and choice.origin == "distribution":
        host.add_plan_reason("packages.components", components=", ".join(components))
    if choice.origin == "distribution":
        _note_outranked(host, package_set, choice)
    names = {package.name for package in (*package_set.packages, *package_set.fabric)}
    held_names = sorted(names & set(facts.held_packages) if package_set.packages else ())
    if held_names and installed_driver.version != package_set.version:
        host.add_plan_reason("packages.held", names=", ".join(held_names))
    if installed_driver.fabric and package_set.version and installed_driver.fabric != package_set.version:
        host.add_plan_reason("fabric.skew", installed=installed_driver.fabric, version=package_set.version)
    if (
        installed_driver.version
        and installed_driver.loaded
        and installed_driver.loaded != installed_driver.version
    ):
        host.add_plan_reason(
            "driver.mismatch", loaded=installed_driver.loaded, installed=installed_driver.version
        )
    if installed_driver.nouveau:
        host.add_plan_reason("reboot.nouveau")
    if facts.virtual and not facts.rehearsed:
        host.add_plan_reason("vm.passthrough", kind=facts.virtual)
    if "epel" in choice.get_package_table(host).get("prerequisites", ()):
        host.add_plan_reason("dkms.epel")


def _note_outranked(host: HostPlanContext, package_set: DriverPackageSet, choice: DriverChoice) -> None:
    """Note a newer version in another registered repository: apt prefers it for dependencies."""
    offered = [
        find_newest_version(host.offered_package_versions(package.name)) for package in package_set.packages
    ]
    newer = [
        version
        for version in offered
        if version and choice.branch < (parse_driver_branch(version) or 0) < MAX_BRANCH
    ]
    if newer:
        host.add_plan_reason("origin.outranked", newest=newer[0], branch=choice.branch)


def _plan_unmanaged(host: HostPlanContext, installed_driver: InstalledDriver) -> DriverPlan:
    """Return a plan that keeps a driver from an image without packages; raise PlanRefusedError if it does not fit."""
    loaded, number = str(installed_driver.loaded), installed_driver.branch_number or 0
    first, last = branch.supported_driver_branch_range(host.detected.nvidia)
    is_requested = host.requested.branch in ("auto", str(number))
    if "gds" in host.requested.parts or "gdrcopy" in host.requested.parts:
        raise build_refusal_error("gpudirect.unmanaged", version=loaded)
    if not (
        is_requested
        and first <= number <= last
        and number >= branch.min_driver_branch_for_cuda(host.requested.cuda)
    ):
        raise build_refusal_error("driver.unmanaged", version=loaded, branch=number)
    _check_mig(host, loaded)
    branch.note_end_of_life(host, number)
    host.add_plan_reason("driver.image", version=loaded)
    return DriverPlan(
        vendor="nvidia",
        action="keep",
        system=describe_operating_system(host.facts),
        cards=detection.count_cards_by_kind(host.detected.nvidia),
        branch=str(number),
        version=loaded,
        installed=parse_upstream_version(loaded),
        origin="image",
        reasons=tuple(host.reasons),
    )
