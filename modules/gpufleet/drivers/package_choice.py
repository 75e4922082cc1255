"""Choose names and exact versions of NVIDIA's packages from the host's repositories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.drivers.branch import DriverChoice
from gpufleet.drivers.driver_plan import Package, Repository
from gpufleet.drivers.host import HostContext
from gpufleet.drivers.rule import build_refusal
from gpufleet.drivers.version import newest_version, parse_branch, parse_kernel_series, parse_upstream_version


@dataclass(frozen=True)
class PackageSet:
    """The packages to install; ``version`` is NVIDIA's, None if it is not yet known."""

    version: str | None
    packages: tuple[Package, ...]
    fabric: tuple[Package, ...] = ()


def choose_packages(host: HostContext, choice: DriverChoice, fabric: str) -> PackageSet:
    """Return the packages at the newest version of the branch that has all of them."""
    entry = choice.package_table(host)
    names = driver_package_names(host, choice)
    fabric_names = fabric_manager_package_names(entry, fabric, choice.branch)
    unversioned = (*entry.get("unversioned", ()), "nvlsm")
    versioned = [name for name in names if not name.startswith(unversioned)]
    version = _choose_version(host, choice, versioned[0], next(iter(fabric_names), None))
    pin_packages = tuple(Package(name.format(branch=choice.branch)) for name in entry.get("pinning", ()))
    if version is None:
        _note_unresolved(host, choice, versioned[0])
    return PackageSet(
        version,
        pin_packages + tuple(_build_package(host, choice, name, version, unversioned) for name in names),
        tuple(_build_package(host, choice, name, version, unversioned) for name in fabric_names),
    )


def keep_packages(host: HostContext, choice: DriverChoice, fabric: str, version: str) -> PackageSet:
    """Return the installed packages at their versions; a missing fabric manager gets the driver's version."""
    entry, installed = choice.package_table(host), host.facts.packages
    fabric_names = fabric_manager_package_names(entry, fabric, choice.branch)
    pin_names = tuple(name.format(branch=choice.branch) for name in entry.get("pinning", ()))
    names = (*pin_names, *driver_package_names(host, choice))
    packages = tuple(Package(name, installed[name]) for name in names if name in installed)
    unversioned = ("nvlsm",)
    return PackageSet(
        version,
        packages,
        tuple(
            _build_package(host, choice, fabric_name, version, unversioned) for fabric_name in fabric_names
        ),
    )


def driver_package_names(host: HostContext, choice: DriverChoice) -> tuple[str, ...]:
    """Return the names of the driver's packages."""
    entry = choice.package_table(host)
    names = entry["sets"][0][choice.module]
    kind = choose_kernel_flavour(host, entry) if entry["module"] == "signed" else ""
    return tuple(name.format(branch=choice.branch, flavour=kind) for name in names)


def fabric_manager_package_names(entry: Mapping[str, Any], fabric: str, branch: int) -> tuple[str, ...]:
    """Return the names of the fabric manager's packages; before 580 they contain the branch."""
    names = list((entry.get(fabric) or ()) if fabric else ())
    older = entry.get("older_fabric_manager")
    if names and older and branch <= older["until"]:
        names[0] = older["name"]
    return tuple(name.format(branch=branch) for name in names)


def choose_kernel_flavour(host: HostContext, entry: Mapping[str, Any]) -> str:
    """Return which signed module packages fit the running kernel: generic, aws, generic-hwe-24.04."""
    kernel = host.facts.kernel
    flavour = kernel.rpartition("-")[2]
    if flavour not in entry["flavours"]:
        raise build_refusal("kernel.flavour", kernel=kernel, known=", ".join(entry["flavours"]))
    base = parse_kernel_series(host.system["base_kernel"])
    return (
        f"{flavour}-{host.system['hwe']}"
        if flavour == "generic" and parse_kernel_series(kernel) != base
        else flavour
    )


def build_cuda_packages(host: HostContext, names: Iterable[str]) -> tuple[Package, ...]:
    """Return a toolkit's packages, at the newest offered version."""
    return tuple(Package(name, newest_version(host.offered_versions(name))) for name in names)


def list_repositories(host: HostContext, choice: DriverChoice) -> tuple[Repository, ...]:
    """Return the repositories that the choice needs in addition to the distribution's."""
    rows = choice.package_table(host).get("repositories", ())
    return tuple(
        Repository(row["name"], row["uri"], row["suite"], tuple(row["components"]), row["key_package"])
        for row in rows
    )


def list_module_streams(host: HostContext, choice: DriverChoice) -> tuple[str, ...]:
    """Return dnf's module streams for the choice."""
    stream = choice.package_table(host).get("stream")
    return (stream[choice.module].format(branch=choice.branch),) if stream else ()


def _choose_version(
    host: HostContext, choice: DriverChoice, lead_package: str, fabric_package: str | None
) -> str | None:
    """Return NVIDIA's newest version of the branch that all packages have, None if not yet known."""
    if host.facts.candidates is None:
        return _recorded_version(host, choice)
    offered = _versions_of_branch(host.offered_versions(lead_package), choice.branch)
    fabric_versions = (
        _versions_of_branch(host.offered_versions(fabric_package), choice.branch)
        if fabric_package
        else offered
    )
    if not offered:
        _refuse_missing(host, choice, lead_package)
        return None
    common = [version for version in offered if version in fabric_versions]
    if not common and fabric_versions:
        driver_list, fabric_list = ", ".join(offered), ", ".join(fabric_versions)
        raise build_refusal(
            "fabric.no_match", branch=choice.branch, drivers=driver_list, managers=fabric_list
        )
    return newest_version(common or offered)


def _recorded_version(host: HostContext, choice: DriverChoice) -> str | None:
    version = choice.package_table(host).get("recorded", {}).get(str(choice.branch))
    if version is None:
        return None
    host.add_reason("packages.recorded", date=host.system["as_of"])
    return parse_upstream_version(version)


def _versions_of_branch(versions: Iterable[str], branch: int) -> list[str]:
    return [parse_upstream_version(version) for version in versions if parse_branch(version) == branch]


def _refuse_missing(host: HostContext, choice: DriverChoice, lead_package: str) -> None:
    """Raise PlanRefused if the distribution's archive has no such package; a vendor's may not be registered yet."""
    if choice.origin == "vendor":
        return
    components = ", ".join(choice.package_table(host)["components"])
    raise build_refusal(
        "packages.not_offered",
        names=lead_package,
        version=f" of branch {choice.branch}",
        remedy=f"enable the components {components} in its package sources, or set origin: vendor",
    )


def _note_unresolved(host: HostContext, choice: DriverChoice, lead_package: str) -> None:
    entry = choice.package_table(host)
    pins = (
        entry.get("pinning")
        or list((entry.get("stream") or {}).values())[:1]
        or [f"{lead_package} {{branch}}.*"]
    )
    repository_names = (
        ", ".join(row["name"] for row in entry.get("repositories", ())) or f"{host.title}'s archive"
    )
    host.add_reason(
        "packages.unresolved", repository=repository_names, pin=pins[0].format(branch=choice.branch)
    )


def _build_package(
    host: HostContext, choice: DriverChoice, name: str, version: str | None, unversioned: tuple[str, ...]
) -> Package:
    """Return a package at the version that contains NVIDIA's."""
    if version is None or name.startswith(unversioned):
        return Package(name)
    exact_version = next(
        (offered for offered in host.offered_versions(name) if parse_upstream_version(offered) == version),
        None,
    )
    if exact_version:
        return Package(name, exact_version)
    if host.facts.candidates is None:
        return Package(name, choice.package_table(host).get("recorded", {}).get(str(choice.branch)))
    installed = host.facts.packages.get(name)
    if installed and parse_upstream_version(installed) == version:
        return Package(name, installed)
    if not host.offered_versions(name) and choice.origin == "vendor":
        return Package(name)
    remedy = "update its repository, or mirror packages of one version"
    raise build_refusal("packages.not_offered", names=name, version=f" {version}", remedy=remedy)
