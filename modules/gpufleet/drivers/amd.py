"""The plan for AMD cards: the kernel's own amdgpu or AMD's packaged one, ROCm, or Vulkan alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.drivers import cards, kernel
from gpufleet.drivers.host import Host, describe
from gpufleet.drivers.installed import Installed
from gpufleet.drivers.model import Action, Package, Plan, Repository, Rocm
from gpufleet.drivers.rule import refuse
from gpufleet.drivers.tables import AmdDriver, Card, RocmRelease, amd_drivers, rocm_releases
from gpufleet.drivers.versions import key, newest, series, upstream

ROCM_EARLIER = "6.3"


def plan(host: Host) -> Plan:
    """Plan the kernel's driver, ROCm where it is wanted, Vulkan where there is no ROCm for the card."""
    release = _release(host)
    driver = _driver(host, release)
    if driver is None:
        host.because("amd.in_kernel", names=cards.names(host.found.amd))
    own = _own_packages(host, vulkan=release is None)
    rocm = _rocm(host, release) if release else None
    if release is None:
        _say_without_rocm(host)
    packages = (*own, *((_dkms(host),) if driver else ()))
    bare = kernel.without_kernel(host)
    headers = kernel.headers(host) if driver and not bare else ()
    signed = "none" if bare or driver is None else kernel.signing(host, built_here=True)
    action = _action(host, packages, rocm)
    loaded = Installed(loaded=host.facts.loaded.get("amdgpu") if driver else None)
    version = driver.module if driver else None
    changes = action != "keep"
    return Plan(
        vendor="amd",
        action=action,
        system=describe(host.facts),
        cards=cards.counted(host.found.amd),
        branch=driver.release if driver else None,
        version=version,
        installed=host.facts.packages.get("amdgpu-dkms"),
        module="amdgpu",
        origin="vendor" if driver or rocm else "distribution",
        repositories=_repositories(host, driver, release),
        packages=packages,
        holds=tuple(each.name for each in packages if each.name == "amdgpu-dkms"),
        headers=headers,
        rocm=rocm,
        module_signing=signed,
        reboot=kernel.restart(host, loaded, version, changes=changes and driver is not None, signed=signed),
        reasons=tuple(host.reasons),
    )


def _release(host: Host) -> RocmRelease | None:
    """Return the ROCm release that is wanted, or refuse it for the machine, the system or a card."""
    known = rocm_releases()
    wanted = host.wanted.rocm or (host.wanted.branch if host.wanted.branch != "auto" else None)
    if wanted is None:
        return None
    if host.facts.arch != "x86_64":
        raise refuse("rocm.arch", arch=host.facts.arch)
    if wanted not in known:
        raise refuse("rocm.unknown", rocm=wanted, known=", ".join(known))
    release = known[wanted]
    for card in host.found.amd:
        if card.gfx not in release.gfx:
            raise refuse(
                "rocm.gfx", rocm=wanted, name=card.label, gfx=card.gfx, remedy=_other_release(card, host.key)
            )
    if host.key not in release.systems or release.stream not in host.system["amd"].get("rocm", {}):
        others = ", ".join(each.release for each in known.values() if host.key in each.systems) or "none"
        listed = ", ".join(release.systems)
        raise refuse("rocm.system", rocm=wanted, title=host.title, known=listed, others=others)
    _check_grid(host, release)
    return release


def _check_grid(host: Host, release: RocmRelease) -> None:
    """Refuse cards that the maker lists on other systems only; note a kernel that it did not test."""
    only = release.only.get(host.key)
    for card in host.found.amd:
        if only and card.pci not in only:
            raise refuse("rocm.card_on_system", rocm=release.release, title=host.title, name=card.label)
    tested = release.kernels.get(host.key, ())
    if tested and ".".join(map(str, series(host.facts.kernel))) not in tested:
        listed = ", ".join(tested)
        host.because("rocm.kernel", rocm=release.release, kernel=host.facts.kernel, listed=listed)


def _other_release(card: Card, system: str) -> str:
    fits = [
        each.release for each in rocm_releases().values() if card.gfx in each.gfx and system in each.systems
    ]
    if fits:
        return f"ask for ROCm {' or '.join(fits)}"
    return "leave rocm out of the template: Vulkan through Mesa is what runs on it"


def _driver(host: Host, release: RocmRelease | None) -> AmdDriver | None:
    """Return AMD's packaged kernel driver where a datacenter card or a legacy ROCm asks for it and it is to be had."""
    if host.wanted.origin == "distribution" or "driver" not in host.system.get("amd", {}):
        return None
    needed = any(card.market == "datacenter" for card in host.found.amd) or (
        release is not None and release.stream == "legacy"
    )
    if not needed:
        return None
    driver = amd_drivers()[release.driver] if release else next(iter(amd_drivers().values()))
    if series(host.facts.kernel) >= series(driver.breaks_from):
        values = {"driver": driver.release, "kernel": host.facts.kernel, "breaks": driver.breaks_from}
        raise refuse("amd.kernel_breaks", driver.sources[0], **values)
    host.because("amd.dkms", driver=driver.release, names=cards.names(host.found.amd))
    return driver


def _dkms(host: Host) -> Package:
    offered = host.offered("amdgpu-dkms")
    if not offered:
        host.because("packages.unresolved", repository="amd-gpu-driver", pin="its address")
    return Package("amdgpu-dkms", newest(offered))


def _own_packages(host: Host, *, vulkan: bool) -> tuple[Package, ...]:
    """Return the distribution's firmware, and Mesa's Vulkan where that is what runs on a card."""
    entry = host.system["amd"]["distribution"]
    screens = any(card.market != "datacenter" for card in host.found.amd)
    names = [*entry["packages"], *(entry["vulkan"] if vulkan and screens else ())]
    recorded = entry.get("recorded", {}) if host.facts.candidates is None else {}
    if entry.get("components"):
        host.because("packages.components", components=", ".join(entry["components"]))
    return tuple(
        Package(name, host.facts.packages.get(name) or newest(host.offered(name)) or recorded.get(name))
        for name in names
    )


def _rocm(host: Host, release: RocmRelease) -> Rocm:
    gfx = tuple(dict.fromkeys(card.gfx for card in host.found.amd))
    host.because("rocm.packages", rocm=release.release, stream=_stream(release))
    if release.stream == "legacy":
        names: tuple[str, ...] = ("rocm",)
    else:
        names = tuple(f"amdrocm{release.release}-{each}" for each in gfx)
        if len(names) > 1:
            host.because("rocm.mixed_gfx", gfx=", ".join(gfx))
    return Rocm(release.release, tuple(Package(name, newest(host.offered(name))) for name in names), gfx)


def _stream(release: RocmRelease) -> str:
    return "amdrocm (TheRock)" if release.stream == "core" else "legacy rocm"


def _say_without_rocm(host: Host) -> None:
    if host.key.startswith("raspberrypi"):
        host.because("amd.pi_kernel")
    listed = {gfx for release in rocm_releases().values() for gfx in release.gfx}
    for card in dict.fromkeys(host.found.amd):
        if card.gfx not in listed:
            host.because("amd.vulkan_only", name=card.label, gfx=card.gfx)
    if all(card.gfx in listed for card in host.found.amd):
        host.because("rocm.container")


def _repositories(
    host: Host, driver: AmdDriver | None, release: RocmRelease | None
) -> tuple[Repository, ...]:
    entry = host.system.get("amd", {})
    found = []
    if driver:
        found.append(_repository(entry["driver"], driver=driver.release, version=host.facts.os_version))
    if release:
        found.append(_repository(entry["rocm"][release.stream], release=release.release))
    return tuple(found)


def _repository(row: Mapping[str, Any], **values: str) -> Repository:
    uri = str(row["uri"]).format(**values)
    return Repository(row["name"], uri, row["suite"], tuple(row["components"]), row["key_package"])


def _action(host: Host, packages: tuple[Package, ...], rocm: Rocm | None) -> Action:
    """Compare what is to be there with what is: all there, nothing there, older or newer."""
    have, targets = host.facts.packages, (*packages, *(rocm.packages if rocm else ()))
    pairs = [(have[each.name], each.version) for each in targets if each.name in have]
    if len(pairs) < len(targets) and not any(each.name in have for each in targets[1:]):
        return "install"
    older = [(old, new) for old, new in pairs if new and upstream(old) != upstream(new)]
    if any(key(new) < key(old) for old, new in older):
        return "downgrade"
    return "upgrade" if older else "keep" if len(pairs) == len(targets) else "install"
