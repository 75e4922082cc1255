"""Plan what the running kernel needs: headers, module signing, a reboot."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpufleet.drivers.driver_plan import RebootPlan, Signing
from gpufleet.drivers.host import HostPlanContext
from gpufleet.drivers.installed import InstalledDriver
from gpufleet.drivers.rule import build_refusal_error
from gpufleet.drivers.version import parse_kernel_series


def is_container_without_kernel(host: HostPlanContext) -> bool:
    """Return whether the host is a container without its own kernel; add the reason."""
    kind = host.facts.container
    if not kind:
        return False
    if host.facts.rehearsed:
        host.add_plan_reason("kernel.rehearsal")
        return False
    host.add_plan_reason("kernel.container", kind=kind)
    return True


def hwe_suffix(host: HostPlanContext, flavour: str) -> str:
    """Return the ending of Ubuntu's meta packages for a newer kernel than the release's own, such as -hwe-24.04."""
    hwe = host.system.get("hwe")
    if not hwe or flavour not in hwe["flavours"]:
        return ""
    is_own_kernel = parse_kernel_series(host.facts.kernel) == parse_kernel_series(host.system["base_kernel"])
    return "" if is_own_kernel else f"-{hwe['name']}"


def is_realtime_kernel(kernel_release: str) -> bool:
    """Return whether a kernel is built with PREEMPT_RT, by its name: -rt-amd64, -realtime, +rt, .rt7."""
    return re.search(r"[-+.]rt\d{0,4}([-+.]|$)|-realtime$", kernel_release) is not None


def parse_ubuntu_flavour(kernel_release: str) -> str:
    """Return the flavour of an Ubuntu kernel, all after its build: 6.8.0-1013-azure-nvidia → azure-nvidia."""
    match = re.fullmatch(r"[\d.]{1,40}-\d{1,9}-(.{1,80})", kernel_release)
    return match.group(1) if match else ""


def parse_ubuntu_build(version: str) -> tuple[int, ...]:
    """Return the numbers of a kernel's release or of its package: 6.8.0-55-generic and 6.8.0-55.57 are one build."""
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version)[:4])


@dataclass(frozen=True)
class KernelPackages:
    """Packages of a kernel's headers; ``older`` are the names before, ``meta`` brings those of later kernels."""

    exact: tuple[str, ...]
    older: tuple[str, ...] = ()
    meta: str | None = None
    place: str = ""


def find_kernel_packages(host: HostPlanContext) -> KernelPackages:
    """Return the header packages of the running kernel by its release: Proxmox's, those with 64 KiB pages, the own."""
    release = host.facts.kernel
    row = next((row for row in host.system.get("kernels", ()) if re.search(row["match"], release)), None)
    values = {
        "kernel": release,
        "release": release.partition("+")[0],
        "series": ".".join(map(str, parse_kernel_series(release))),
    }
    names, older = (
        tuple(name.format(**values) for name in (row or host.system).get(key, ()))
        for key in ("headers", "older_headers")
    )
    if row is not None:
        return KernelPackages(names, older, row.get("meta"), row.get("source", ""))
    return KernelPackages(names, older, _find_meta_package(host))


def _find_meta_package(host: HostPlanContext) -> str | None:
    """Return the package that brings the headers of later kernels."""
    if host.distribution == "ubuntu":
        flavour = parse_ubuntu_flavour(host.facts.kernel)
        name = host.system["meta"].get(f"-{flavour}")
        return f"{name}{hwe_suffix(host, flavour)}" if name else None
    for suffix, name in host.system["meta"].items():
        if host.facts.kernel.endswith(suffix):
            return str(name)
    return None


def is_meta_package_behind(host: HostPlanContext, name: str) -> bool:
    """Return whether a meta package is of an older kernel than the running one, which is of another repository.

    So it is with a kernel of backports or of kernel.org: the meta package brings headers that fit no kernel here.
    """
    versions = [text for text in host.offered_package_versions(name) if "~bpo" not in text]
    if not versions or host.distribution not in ("debian", "ubuntu") or not name.startswith("linux-"):
        return False
    newest, running = max(map(parse_ubuntu_build, versions)), parse_ubuntu_build(host.facts.kernel)
    return newest < running if host.distribution == "ubuntu" else newest[:2] < running[:2]


def find_kernel_image(host: HostPlanContext, meta: str) -> tuple[str, ...]:
    """Return the package that brings the kernel of a meta package of headers, if one must be installed."""
    if host.facts.newest_kernel not in ("", host.facts.kernel) or host.facts.candidates is None:
        return ()
    name = meta.replace("linux-headers-", "linux-image-").replace("-default-headers", "-default-kernel")
    return (name,) if name != meta and host.is_offered(name) else ()


def choose_kernel_header_packages(host: HostPlanContext) -> tuple[str, ...]:
    """Return the header packages: those of the running kernel, and the meta package for later ones.

    Raise PlanRefusedError if the host's repositories offer neither.
    """
    facts, packages = host.facts, find_kernel_packages(host)
    exact_names = packages.exact
    if packages.older and not host.is_offered(exact_names[0]) and host.is_offered(packages.older[0]):
        exact_names = packages.older
    has_meta = packages.meta and host.is_offered(packages.meta)
    meta_names = (
        (packages.meta,)
        if packages.meta and has_meta and not is_meta_package_behind(host, packages.meta)
        else ()
    )
    missing = [name for name in exact_names if not host.is_offered(name)]
    # A rehearsed host runs the rehearsal machine's kernel, which may have no header packages.
    if facts.headers_installed or facts.rehearsed:
        return (*(name for name in exact_names if name not in missing), *meta_names)
    if missing and meta_names:
        host.add_plan_reason("kernel.headers_gone", names=", ".join(exact_names), meta=meta_names[0])
        return (*meta_names, *find_kernel_image(host, meta_names[0]))
    if missing:
        raise build_refusal_error(
            "packages.not_offered",
            names=", ".join(missing),
            version=f", the headers of kernel {facts.kernel}",
            remedy=f"{packages.place or 'add the repository that this kernel came from'}; or start a kernel whose"
            " headers are offered",
        )
    host.add_plan_reason(
        "kernel.headers_missing",
        kernel=facts.kernel,
        names=", ".join(exact_names),
        meta=", ".join(meta_names) or "none",
    )
    return (*exact_names, *meta_names)


def choose_module_signing(host: HostPlanContext, *, is_built_on_host: bool) -> Signing:
    """Return who signs the module for secure boot."""
    secure_boot = host.facts.secure_boot
    if secure_boot is None and is_built_on_host:
        host.add_plan_reason("signing.unknown")
    if not secure_boot:
        return "none"
    host.add_plan_reason("signing.mok" if is_built_on_host else "signing.distribution")
    return "mok" if is_built_on_host else "distribution"


def plan_reboot(
    host: HostPlanContext,
    installed_driver: InstalledDriver,
    target_version: str | None,
    *,
    has_changes: bool,
    signing: Signing,
) -> RebootPlan:
    """Return whether the host must reboot, with the first reason that applies.

    A newer kernel is not a reason if the module does not build on it (``driver.newest_kernel_breaks``).
    """
    facts = host.facts
    is_newer_usable = (
        bool(facts.newest_kernel)
        and facts.newest_kernel != facts.kernel
        and not any(
            reason.code in ("driver.newest_kernel_breaks", "kernel.newest_without_modules")
            for reason in host.reasons
        )
    )
    if is_newer_usable:
        host.add_plan_reason("kernel.newer_installed", newest=facts.newest_kernel, kernel=facts.kernel)
    for needed, noted_reason in (
        (installed_driver.nouveau, "nouveau is loaded"),
        (signing == "mok" and has_changes, "the module's key is enrolled during boot"),
        (
            _is_mismatched(installed_driver, target_version, has_changes),
            _describe_mismatch(installed_driver, target_version),
        ),
        (is_newer_usable, "a newer kernel is installed"),
        (
            any(noted_reason.code == "kernel.headers_gone" for noted_reason in host.reasons),
            "the newest kernel must be running first",
        ),
        (
            any(noted_reason.code == "kernel.modules_newer" for noted_reason in host.reasons),
            "the modules are of a newer kernel",
        ),
    ):
        if needed:
            return RebootPlan(needed=True, reason=noted_reason)
    return RebootPlan(needed=False, reason="the module loads without a reboot" if has_changes else "")


def _is_mismatched(installed: InstalledDriver, version: str | None, changes: bool) -> bool:
    if installed.loaded is None:
        return False
    return installed.loaded != version if version else changes


def _describe_mismatch(installed: InstalledDriver, version: str | None) -> str:
    return f"module {installed.loaded} is loaded, {version or 'another version'} must run"
