"""Choose names and exact versions of NVIDIA's packages from the host's repositories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.drivers import kernel
from gpufleet.drivers.branch import DriverChoice
from gpufleet.drivers.driver_plan import PackageRepository, PlannedPackage
from gpufleet.drivers.host import HostPlanContext
from gpufleet.drivers.repository import build_package_repository
from gpufleet.drivers.rule import build_refusal_error
from gpufleet.drivers.version import (
    find_newest_version,
    parse_driver_branch,
    parse_upstream_version,
)


@dataclass(frozen=True)
class DriverPackageSet:
    """The packages to install; ``version`` is NVIDIA's, None if it is not yet known."""

    version: str | None
    packages: tuple[PlannedPackage, ...]
    fabric: tuple[PlannedPackage, ...] = ()


def choose_driver_packages(
    host: HostPlanContext, driver_choice: DriverChoice, fabric_manager_key: str
) -> DriverPackageSet:
    """Return the packages at the newest version of the branch that has all of them."""
    entry = driver_choice.get_package_table(host)
    names = driver_package_names(host, driver_choice)
    fabric_names = fabric_manager_package_names(entry, fabric_manager_key, driver_choice.branch)
    unversioned = (*entry.get("unversioned", ()), "nvlsm")
    versioned = [name for name in names if not name.startswith(unversioned)]
    version = _choose_version(host, driver_choice, versioned[0], next(iter(fabric_names), None))
    pin_packages = tuple(
        PlannedPackage(name.format(branch=driver_choice.branch)) for name in entry.get("pinning", ())
    )
    if version is None:
        _note_unresolved(host, driver_choice, versioned[0])
    return DriverPackageSet(
        version,
        pin_packages
        + tuple(_build_package(host, driver_choice, name, version, unversioned) for name in names),
        tuple(_build_package(host, driver_choice, name, version, unversioned) for name in fabric_names),
    )


def keep_installed_packages(
    host: HostPlanContext, driver_choice: DriverChoice, fabric_manager_key: str, version: str
) -> DriverPackageSet:
    """Return the installed packages at their versions; a missing fabric manager gets the driver's version."""
    entry, installed = driver_choice.get_package_table(host), host.facts.packages
    fabric_names = fabric_manager_package_names(entry, fabric_manager_key, driver_choice.branch)
    pin_names = tuple(name.format(branch=driver_choice.branch) for name in entry.get("pinning", ()))
    names = (*pin_names, *driver_package_names(host, driver_choice))
    packages = tuple(PlannedPackage(name, installed[name]) for name in names if name in installed)
    unversioned = ("nvlsm",)
    return DriverPackageSet(
        version,
        packages,
        tuple(
            _build_package(host, driver_choice, fabric_name, version, unversioned)
            for fabric_name in fabric_names
        ),
    )


def driver_package_names(host: HostPlanContext, driver_choice: DriverChoice) -> tuple[str, ...]:
    """Return the names of the driver's packages."""
    entry = driver_choice.get_package_table(host)
    if entry["module"] != "signed":
        names, flavour = entry["sets"][0][driver_choice.module], ""
    else:
        flavour = choose_kernel_flavour(host, entry)
        is_desktop = flavour in entry["desktop_flavours"]
        names = entry["sets"][1 if is_desktop else 0][driver_choice.module]
        flavour = choose_flavour_variant(host, names[0], driver_choice.branch, flavour)
    return tuple(name.format(branch=driver_choice.branch, flavour=flavour) for name in names)


def choose_flavour_variant(host: HostPlanContext, template: str, branch: int, flavour: str) -> str:
    """Return a flavour with the ending of the kernel's series: -hwe-24.04 is newer, -lts-24.04 a cloud's first.

    The package whose modules are built for the running kernel's series decides, if the host said what is offered.
    """
    default = f"{flavour}{kernel.hwe_suffix(host, flavour)}"
    running = kernel.parse_ubuntu_build(host.facts.kernel)
    release = host.key.partition("-")[2]
    for variant in dict.fromkeys((default, flavour, f"{flavour}-hwe-{release}", f"{flavour}-lts-{release}")):
        versions = host.offered_package_versions(template.format(branch=branch, flavour=variant))
        if any(kernel.parse_ubuntu_build(version)[:2] == running[:2] for version in versions):
            return variant
    return default


def check_module_kernel(host: HostPlanContext, packages: Iterable[PlannedPackage], *, is_kept: bool) -> None:
    """Check which kernel signed modules are for.

    Newer ones bring their kernel, which is a reason to restart. Raise PlanRefusedError if they are older than the
    running kernel, or than the one that starts next; a driver that is kept runs until then, so no restart is planned.
    """
    facts = host.facts
    package = next((each for each in packages if each.name.startswith("linux-modules-nvidia-")), None)
    if package is None or facts.rehearsed or facts.container:
        return
    versions = (
        (facts.packages.get(package.name, ""),) if is_kept else host.offered_package_versions(package.name)
    )
    built = max(map(kernel.parse_ubuntu_build, versions), default=())
    if not built:
        return
    running, following = (kernel.parse_ubuntu_build(text) for text in (facts.kernel, facts.newest_kernel))
    values = {
        "name": package.name,
        "offered": ".".join(map(str, built[:3])) + f"-{built[-1]}",
        "kernel": facts.kernel,
    }
    if built < following:
        values["kernel"] = facts.newest_kernel
        if is_kept:
            host.add_plan_reason("kernel.newest_without_modules", **values)
            return
        raise build_refusal_error(
            "kernel.modules_older", remedy="start that kernel, and remove the newer one", **values
        )
    if is_kept:
        return
    if built > running:
        host.add_plan_reason("kernel.modules_newer", **values)
    elif built < running:
        remedy = _describe_kernel_remedy(host, "start that kernel")
        raise build_refusal_error("kernel.modules_older", remedy=remedy, **values)


def _describe_kernel_remedy(host: HostPlanContext, remedy: str) -> str:
    """Return a remedy with origin: vendor added, if DKMS could build the module for the running kernel."""
    names = kernel.find_kernel_packages(host).exact
    has_headers = host.facts.headers_installed or all(host.is_offered(name) for name in names)
    if host.has_vendor_packages and has_headers and not kernel.is_realtime_kernel(host.facts.kernel):
        remedy += ", or origin: vendor, whose modules are built by DKMS"
    return remedy


def fabric_manager_package_names(
    package_table: Mapping[str, Any], fabric_manager_key: str, branch: int
) -> tuple[str, ...]:
    """Return the names of the fabric manager's packages; before 580 they contain the branch."""
    names = list((package_table.get(fabric_manager_key) or ()) if fabric_manager_key else ())
    older = package_table.get("older_imex" if fabric_manager_key == "imex" else "older_fabric_manager")
    if names and older and branch <= older["until"]:
        names[0] = older["name"]
    return tuple(name.format(branch=branch) for name in names)


def choose_kernel_flavour(host: HostPlanContext, package_table: Mapping[str, Any]) -> str:
    """Return the flavour of signed module packages that fits the running kernel: generic, aws, nvidia-64k."""
    release = host.facts.kernel
    flavours = (*package_table["flavours"], *package_table.get(f"{host.facts.arch}_flavours", ()))
    own = kernel.parse_ubuntu_flavour(release)
    if own not in flavours:
        remedy = _describe_kernel_remedy(host, "use one of those kernels")
        raise build_refusal_error("kernel.flavour", kernel=release, known=", ".join(flavours), remedy=remedy)
    return own


def choose_cuda_package_versions(
    host: HostPlanContext, package_names: Iterable[str]
) -> tuple[PlannedPackage, ...]:
    """Return a toolkit's packages, at the newest offered version."""
    return tuple(
        PlannedPackage(name, find_newest_version(host.offered_package_versions(name)))
        for name in package_names
    )


def list_nvidia_repositories(
    host: HostPlanContext, driver_choice: DriverChoice
) -> tuple[PackageRepository, ...]:
    """Return the repositories that the choice needs in addition to the distribution's."""
    rows = driver_choice.get_package_table(host).get("repositories", ())
    return tuple(build_package_repository(host, row) for row in rows)


def list_dnf_module_streams(host: HostPlanContext, driver_choice: DriverChoice) -> tuple[str, ...]:
    """Return dnf's module streams for the choice."""
    stream = driver_choice.get_package_table(host).get("stream")
    return (stream[driver_choice.module].format(branch=driver_choice.branch),) if stream else ()


def _choose_version(
    host: HostPlanContext, choice: DriverChoice, lead_package: str, fabric_package: str | None
) -> str | None:
    """Return NVIDIA's newest version of the branch that all packages have, None if not yet known."""
    if host.facts.candidates is None:
        return _recorded_version(host, choice)
    offered = _versions_of_branch(host.offered_package_versions(lead_package), choice.branch)
    fabric_versions = (
        _versions_of_branch(host.offered_package_versions(fabric_package), choice.branch)
        if fabric_package
        else offered
    )
    if not offered:
        _refuse_missing(host, choice, lead_package)
        return None
    common = [version for version in offered if version in fabric_versions]
    if not common and fabric_versions:
        driver_list, fabric_list = ", ".join(offered), ", ".join(fabric_versions)
        raise build_refusal_error(
            "fabric.no_match", branch=choice.branch, drivers=driver_list, managers=fabric_list
        )
    return find_newest_version(common or offered)


def _recorded_version(host: HostPlanContext, choice: DriverChoice) -> str | None:
    version = choice.get_package_table(host).get("recorded", {}).get(str(choice.branch))
    if version is None:
        return None
    host.add_plan_reason("packages.recorded", date=host.system["as_of"])
    return parse_upstream_version(version)


def _versions_of_branch(versions: Iterable[str], branch: int) -> list[str]:
    return [parse_upstream_version(version) for version in versions if parse_driver_branch(version) == branch]


def _refuse_missing(host: HostPlanContext, choice: DriverChoice, lead_package: str) -> None:
    """Raise PlanRefusedError if the distribution's archive lacks the package; a vendor's may not be registered yet."""
    if choice.origin == "vendor":
        return
    components = ", ".join(choice.get_package_table(host)["components"])
    other = ", or set origin: vendor" if host.has_vendor_packages else ""
    raise build_refusal_error(
        "packages.not_offered",
        names=lead_package,
        version=f" of branch {choice.branch}",
        remedy=f"enable the components {components} in its package sources{other}",
    )


def refuse_unoffered_packages(
    host: HostPlanContext, names: Iterable[str], components: Iterable[str] = ()
) -> None:
    """Raise PlanRefusedError for packages of the distribution that it does not offer and that are not installed."""
    if host.facts.rehearsed:  # its repository of fakes is registered with the plan
        return
    missing = [name for name in names if not host.is_offered(name) and name not in host.facts.packages]
    if missing:
        listed = ", ".join(components)
        remedy = (
            f"enable the components {listed} in its package sources" if listed else "update its package lists"
        )
        raise build_refusal_error(
            "packages.not_offered", names=", ".join(missing), version="", remedy=f"{remedy}, and plan again"
        )


def _note_unresolved(host: HostPlanContext, choice: DriverChoice, lead_package: str) -> None:
    entry = choice.get_package_table(host)
    stream = (entry.get("stream") or {}).get(choice.module)
    pins = entry.get("pinning") or ([stream] if stream else [f"{lead_package} {{branch}}.*"])
    repository_names = (
        ", ".join(row["name"] for row in entry.get("repositories", ())) or f"{host.system_title}'s archive"
    )
    host.add_plan_reason(
        "packages.unresolved", repository=repository_names, pin=pins[0].format(branch=choice.branch)
    )


def _build_package(
    host: HostPlanContext, choice: DriverChoice, name: str, version: str | None, unversioned: tuple[str, ...]
) -> PlannedPackage:
    """Return a package at the version that contains NVIDIA's."""
    if version is None or name.startswith(unversioned):
        if choice.origin == "distribution":
            refuse_unoffered_packages(host, [name], choice.get_package_table(host)["components"])
        return PlannedPackage(name)
    exact_version = next(
        (
            offered
            for offered in host.offered_package_versions(name)
            if parse_upstream_version(offered) == version
        ),
        None,
    )
    if exact_version:
        return PlannedPackage(name, exact_version)
    if host.facts.candidates is None:
        return PlannedPackage(
            name, choice.get_package_table(host).get("recorded", {}).get(str(choice.branch))
        )
    installed = host.facts.packages.get(name)
    if installed and parse_upstream_version(installed) == version:
        return PlannedPackage(name, installed)
    if not host.offered_package_versions(name) and choice.origin == "vendor":
        return PlannedPackage(name)
    remedy = "update its repository, or mirror packages of one version"
    raise build_refusal_error("packages.not_offered", names=name, version=f" {version}", remedy=remedy)
