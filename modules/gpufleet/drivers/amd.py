"""Plan the software for AMD cards: the kernel's or AMD's packaged amdgpu, ROCm, or Vulkan alone."""

from __future__ import annotations

from gpufleet.drivers import detection, kernel, package_choice, radeon
from gpufleet.drivers import rocm as rocm_release
from gpufleet.drivers.data_file import (
    AmdDriver,
    RocmRelease,
    load_amd_drivers,
    load_rocm_releases,
    load_system_package_tables,
)
from gpufleet.drivers.driver_plan import Action, DriverPlan, PackageRepository, PlannedPackage, RocmPlan
from gpufleet.drivers.host import HostPlanContext, describe_operating_system
from gpufleet.drivers.installed import InstalledDriver
from gpufleet.drivers.repository import build_package_repository
from gpufleet.drivers.rule import build_refusal_error
from gpufleet.drivers.version import (
    find_newest_version,
    parse_kernel_series,
    parse_upstream_version,
    version_sort_key,
)

GPU_GROUPS = ("render", "video")
AMDGPU_ARCHITECTURE = "x86_64"  # the only one of amdgpu-dkms and ROCm


def plan_amd_driver(host: HostPlanContext) -> DriverPlan:
    """Return the plan: kernel driver, ROCm if requested, Vulkan for cards without ROCm."""
    if "amd" not in host.system:
        known = [name for name, row in load_system_package_tables().items() if "amd" in row]
        raise build_refusal_error("amd.system", title=host.system_title, known=", ".join(known))
    release = rocm_release.choose_rocm_release(host)
    driver = _choose_driver(host, release)
    if driver is None:
        host.add_plan_reason("amd.in_kernel", names=detection.format_card_names(host.detected.amd))
    distribution_packages = _distribution_packages(host, vulkan=release is None)
    if driver is None and not (host.facts.container or host.facts.rehearsed):
        radeon.check_kernel_driver(host, distribution_packages)
    rocm = rocm_release.plan_rocm_packages(host, release) if release else None
    if rocm and release and release.stream == "distribution":
        package_choice.refuse_unoffered_packages(host, [package.name for package in rocm.packages])
    if release is None:
        _explain_missing_rocm(host)
    packages = (*distribution_packages, *((_dkms_package(host),) if driver else ()))
    has_no_kernel = kernel.is_container_without_kernel(host)
    headers = _choose_header_packages(host) if driver and not has_no_kernel else ()
    signed = (
        "none"
        if has_no_kernel or driver is None
        else kernel.choose_module_signing(host, is_built_on_host=True)
    )
    repositories = _list_repositories(host, driver, release)
    action = _choose_action(host, packages, rocm)
    loaded_driver = InstalledDriver(loaded=host.facts.loaded.get("amdgpu") if driver else None)
    version = (driver.module or None) if driver else None
    changes = action != "keep"
    return DriverPlan(
        vendor="amd",
        action=action,
        system=describe_operating_system(host.facts),
        cards=detection.count_cards_by_kind(host.detected.amd),
        branch=driver.release if driver else None,
        version=version,
        installed=host.facts.packages.get("amdgpu-dkms"),
        module="amdgpu",
        origin="vendor" if repositories else "distribution",
        prerequisites=tuple(host.system["amd"].get("prerequisites", ())) if driver or release else (),
        repositories=repositories,
        packages=packages,
        holds=tuple(package.name for package in packages if package.name == "amdgpu-dkms"),
        headers=headers,
        groups=GPU_GROUPS,
        rocm=rocm,
        module_signing=signed,
        reboot=kernel.plan_reboot(
            host, loaded_driver, version, has_changes=changes and driver is not None, signing=signed
        ),
        reasons=tuple(host.reasons),
    )


def _choose_driver(host: HostPlanContext, release: RocmRelease | None) -> AmdDriver | None:
    """Return AMD's packaged kernel driver if a datacenter card or a legacy ROCm needs it and the system has it."""
    has_own_rocm = release is not None and not release.drivers
    is_published = "driver" in host.system["amd"] and host.facts.arch == AMDGPU_ARCHITECTURE
    if host.requested.origin == "distribution" or has_own_rocm or not is_published:
        return None
    is_needed = any(card.market == "datacenter" for card in host.detected.amd) or (
        release is not None and (release.stream == "legacy" or radeon.is_kernel_too_old(host))
    )
    if not is_needed:
        return None
    drivers = load_amd_drivers()
    candidates = [drivers[name] for name in release.drivers] if release else [next(iter(drivers.values()))]
    driver = next((driver for driver in candidates if _has_repository(host, driver)), candidates[0])
    _check_driver(host, driver)
    host.add_plan_reason(
        "amd.dkms", driver=driver.release, names=detection.format_card_names(host.detected.amd)
    )
    return driver


def _has_repository(host: HostPlanContext, driver: AmdDriver) -> bool:
    """Return whether AMD publishes a driver for the system, on RHEL for its minor release."""
    is_listed = host.system["manager"] != "dnf" or host.facts.os_version in driver.versions
    return host.key in driver.systems and is_listed


def _check_driver(host: HostPlanContext, driver: AmdDriver) -> None:
    """Raise PlanRefusedError if a driver has no repository for the system or does not build on its kernel."""
    if not _has_repository(host, driver):
        raise build_refusal_error(
            "amd.driver_system",
            driver=driver.release,
            system=f"{host.facts.os_id} {host.facts.os_version}",
            known=", ".join(driver.versions if host.system["manager"] == "dnf" else driver.systems),
        )
    breaks_from = driver.breaks_from
    for kernel_release in (host.facts.kernel, host.facts.newest_kernel):
        if not breaks_from or parse_kernel_series(kernel_release) < parse_kernel_series(breaks_from):
            continue
        if kernel_release != host.facts.kernel and "amdgpu-dkms" in host.facts.packages:
            host.add_sourced_reason(
                "driver.newest_kernel_breaks",
                driver.sources[0],
                version=f"amdgpu-dkms {driver.release}",
                kernel=kernel_release,
                remedy=f"start a kernel older than {breaks_from} and hold it",
            )
            return
        values = {"driver": driver.release, "kernel": kernel_release, "breaks": breaks_from}
        raise build_refusal_error("amd.kernel_breaks", driver.sources[0], **values)


def _choose_header_packages(host: HostPlanContext) -> tuple[str, ...]:
    """Return the headers, and what AMD's module needs besides: on Ubuntu the kernel's extra modules."""
    extra_names = (name.format(kernel=host.facts.kernel) for name in host.system["amd"].get("headers", ()))
    offered_names = (
        name for name in extra_names if host.facts.candidates is None or host.offered_package_versions(name)
    )
    return (*kernel.choose_kernel_header_packages(host), *offered_names)


def _dkms_package(host: HostPlanContext) -> PlannedPackage:
    offered_versions = host.offered_package_versions("amdgpu-dkms")
    if not offered_versions:
        host.add_plan_reason("packages.unresolved", repository="amd-gpu-driver", pin="its address")
    return PlannedPackage("amdgpu-dkms", find_newest_version(offered_versions))


def _distribution_packages(host: HostPlanContext, *, vulkan: bool) -> tuple[PlannedPackage, ...]:
    """Return the distribution's firmware packages, and Mesa's Vulkan for cards without ROCm."""
    entry = host.system["amd"]["distribution"]
    has_display_card = any(card.market != "datacenter" for card in host.detected.amd)
    names = [*entry["packages"], *(entry["vulkan"] if vulkan and has_display_card else ())]
    recorded = entry.get("recorded", {}) if host.facts.candidates is None else {}
    if entry.get("components"):
        host.add_plan_reason("packages.components", components=", ".join(entry["components"]))
    package_choice.refuse_unoffered_packages(host, names, entry.get("components", ()))
    return tuple(
        PlannedPackage(
            name,
            host.facts.packages.get(name)
            or find_newest_version(host.offered_package_versions(name))
            or recorded.get(name),
        )
        for name in names
    )


def _explain_missing_rocm(host: HostPlanContext) -> None:
    if host.facts.raspberry:
        host.add_plan_reason("amd.pi_kernel")
    supported_gfx = {
        gfx
        for release in load_rocm_releases().values()
        if release.drivers or host.key in release.systems
        for gfx in release.gfx
    }
    for card in dict.fromkeys(host.detected.amd):
        if card.gfx not in supported_gfx:
            host.add_plan_reason("amd.vulkan_only", name=card.display_name, gfx=card.gfx)
    if all(card.gfx in supported_gfx for card in host.detected.amd):
        host.add_plan_reason("rocm.container")


def _list_repositories(
    host: HostPlanContext, driver: AmdDriver | None, release: RocmRelease | None
) -> tuple[PackageRepository, ...]:
    entry = host.system.get("amd", {})
    repositories = []
    if driver:
        repositories.append(
            build_package_repository(
                host, entry["driver"], driver=driver.release, version=host.facts.os_version
            )
        )
    if release:
        repositories.extend(rocm_release.list_rocm_repositories(host, release))
    return tuple(repositories)


def _choose_action(
    host: HostPlanContext, packages: tuple[PlannedPackage, ...], rocm: RocmPlan | None
) -> Action:
    """Return the action from a comparison of target and installed packages."""
    installed, targets = host.facts.packages, (*packages, *(rocm.packages if rocm else ()))
    pairs = [(installed[package.name], package.version) for package in targets if package.name in installed]
    if len(pairs) < len(targets) and not any(package.name in installed for package in targets[1:]):
        return "install"
    changed = [
        (installed_version, target_version)
        for installed_version, target_version in pairs
        if target_version
        and parse_upstream_version(installed_version) != parse_upstream_version(target_version)
    ]
    if any(version_sort_key(new) < version_sort_key(old) for old, new in changed):
        return "downgrade"
    return "upgrade" if changed else "keep" if len(pairs) == len(targets) else "install"
