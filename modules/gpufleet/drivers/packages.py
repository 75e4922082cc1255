"""Names and exact versions of NVIDIA's packages for a choice, as the host's own repositories offer them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpufleet.drivers.branch import Choice
from gpufleet.drivers.host import Host
from gpufleet.drivers.model import Package, Repository
from gpufleet.drivers.rule import refuse
from gpufleet.drivers.versions import branch_of, newest, series, upstream


@dataclass(frozen=True)
class Chosen:
    """What is to be installed; ``version`` is the maker's, None where it is known only later."""

    version: str | None
    packages: tuple[Package, ...]
    fabric: tuple[Package, ...] = ()


def choose(host: Host, choice: Choice, fabric: str) -> Chosen:
    """Choose the newest version of the branch for which everything is offered."""
    entry = choice.entry(host)
    names = driver_names(host, choice)
    managers = manager_names(entry, fabric, choice.branch)
    loose = (*entry.get("unversioned", ()), "nvlsm")
    exact = [name for name in names if not name.startswith(loose)]
    version = _version(host, choice, exact[0], next(iter(managers), None))
    pins = tuple(Package(name.format(branch=choice.branch)) for name in entry.get("pinning", ()))
    if version is None:
        _unresolved(host, choice, exact[0])
    return Chosen(
        version,
        pins + tuple(_package(host, choice, name, version, loose) for name in names),
        tuple(_package(host, choice, name, version, loose) for name in managers),
    )


def kept(host: Host, choice: Choice, fabric: str, version: str) -> Chosen:
    """Name what is installed, at its own versions; a fabric manager that is missing comes at the driver's."""
    entry, have = choice.entry(host), host.facts.packages
    managers = manager_names(entry, fabric, choice.branch)
    pins = tuple(name.format(branch=choice.branch) for name in entry.get("pinning", ()))
    names = (*pins, *driver_names(host, choice))
    packages = tuple(Package(name, have[name]) for name in names if name in have)
    loose = ("nvlsm",)
    return Chosen(version, packages, tuple(_package(host, choice, each, version, loose) for each in managers))


def driver_names(host: Host, choice: Choice) -> tuple[str, ...]:
    """Return the names of the driver's packages."""
    entry = choice.entry(host)
    names = entry["sets"][0][choice.module]
    kind = flavour(host, entry) if entry["module"] == "signed" else ""
    return tuple(name.format(branch=choice.branch, flavour=kind) for name in names)


def manager_names(entry: Mapping[str, Any], fabric: str, branch: int) -> tuple[str, ...]:
    """Return the names of the fabric manager's packages; they carried the branch before 580."""
    names = list((entry.get(fabric) or ()) if fabric else ())
    older = entry.get("older_fabric_manager")
    if names and older and branch <= older["until"]:
        names[0] = older["name"]
    return tuple(name.format(branch=branch) for name in names)


def flavour(host: Host, entry: Mapping[str, Any]) -> str:
    """Return which signed module packages fit the running kernel: generic, aws, generic-hwe-24.04."""
    kernel = host.facts.kernel
    kind = kernel.rpartition("-")[2]
    if kind not in entry["flavours"]:
        raise refuse("kernel.flavour", kernel=kernel, known=", ".join(entry["flavours"]))
    base = series(host.system["base_kernel"])
    return f"{kind}-{host.system['hwe']}" if kind == "generic" and series(kernel) != base else kind


def cuda_packages(host: Host, names: Iterable[str]) -> tuple[Package, ...]:
    """Return a toolkit's packages, at the newest offered version."""
    return tuple(Package(name, newest(host.offered(name))) for name in names)


def repositories(host: Host, choice: Choice) -> tuple[Repository, ...]:
    """Return the repositories that the choice needs beside the distribution's."""
    listed = choice.entry(host).get("repositories", ())
    return tuple(
        Repository(row["name"], row["uri"], row["suite"], tuple(row["components"]), row["key_package"])
        for row in listed
    )


def streams(host: Host, choice: Choice) -> tuple[str, ...]:
    """Return dnf's module streams for the choice."""
    stream = choice.entry(host).get("stream")
    return (stream[choice.module].format(branch=choice.branch),) if stream else ()


def _version(host: Host, choice: Choice, lead: str, manager: str | None) -> str | None:
    """Return the maker's version: the newest of the branch that all of it exists for."""
    if host.facts.candidates is None:
        return _recorded(host, choice)
    offered = _of_branch(host.offered(lead), choice.branch)
    managers = _of_branch(host.offered(manager), choice.branch) if manager else offered
    if not offered:
        _refuse_missing(host, choice, lead)
        return None
    both = [version for version in offered if version in managers]
    if not both and managers:
        drivers, others = ", ".join(offered), ", ".join(managers)
        raise refuse("fabric.no_match", branch=choice.branch, drivers=drivers, managers=others)
    return newest(both or offered)


def _recorded(host: Host, choice: Choice) -> str | None:
    version = choice.entry(host).get("recorded", {}).get(str(choice.branch))
    if version is None:
        return None
    host.because("packages.recorded", date=host.system["as_of"])
    return upstream(version)


def _of_branch(versions: Iterable[str], branch: int) -> list[str]:
    return [upstream(version) for version in versions if branch_of(version) == branch]


def _refuse_missing(host: Host, choice: Choice, lead: str) -> None:
    """Refuse where the distribution's own archive lacks the package; a vendor's may not be registered yet."""
    if choice.origin == "vendor":
        return
    components = ", ".join(choice.entry(host)["components"])
    raise refuse(
        "packages.not_offered",
        names=lead,
        version=f" of branch {choice.branch}",
        remedy=f"enable the components {components} in its package sources, or set origin: vendor",
    )


def _unresolved(host: Host, choice: Choice, lead: str) -> None:
    entry = choice.entry(host)
    pins = entry.get("pinning") or list((entry.get("stream") or {}).values())[:1] or [f"{lead} {{branch}}.*"]
    named = ", ".join(row["name"] for row in entry.get("repositories", ())) or f"{host.title}'s archive"
    host.because("packages.unresolved", repository=named, pin=pins[0].format(branch=choice.branch))


def _package(host: Host, choice: Choice, name: str, version: str | None, loose: tuple[str, ...]) -> Package:
    """Return a package at the version that carries the maker's."""
    if version is None or name.startswith(loose):
        return Package(name)
    exact = next((each for each in host.offered(name) if upstream(each) == version), None)
    if exact:
        return Package(name, exact)
    if host.facts.candidates is None:
        return Package(name, choice.entry(host).get("recorded", {}).get(str(choice.branch)))
    installed = host.facts.packages.get(name)
    if installed and upstream(installed) == version:
        return Package(name, installed)
    if not host.offered(name) and choice.origin == "vendor":
        return Package(name)
    remedy = "bring its repository up to date, or mirror a matching set"
    raise refuse("packages.not_offered", names=name, version=f" {version}", remedy=remedy)
