"""Plan what the running kernel needs: headers, module signing, a reboot."""

from __future__ import annotations

from gpufleet.drivers.driver_plan import RebootPlan, Signing
from gpufleet.drivers.host import HostPlanContext
from gpufleet.drivers.installed import InstalledDriver
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


def _find_meta_package(host: HostPlanContext) -> str | None:
    """Return the package that brings the headers of later kernels."""
    for suffix, name in host.system["meta"].items():
        if host.facts.kernel.endswith(suffix):
            return f"{name}{hwe_suffix(host, suffix.removeprefix('-'))}"
    return None


def choose_kernel_header_packages(host: HostPlanContext) -> tuple[str, ...]:
    """Return the header packages: those of the running kernel, and the meta package for later ones."""
    facts = host.facts
    exact_names = tuple(name.format(kernel=facts.kernel) for name in host.system["headers"])
    meta_package = _find_meta_package(host)
    if facts.headers_installed:
        return exact_names + ((meta_package,) if meta_package else ())
    if (
        facts.rehearsed
    ):  # a rehearsed host runs the rehearsal machine's kernel, which may have no header packages
        return tuple(
            name for name in (*exact_names, meta_package or "") if host.offered_package_versions(name)
        )
    is_unavailable = facts.candidates is not None and not any(map(host.offered_package_versions, exact_names))
    if is_unavailable and meta_package and host.offered_package_versions(meta_package):
        host.add_plan_reason("kernel.headers_gone", names=", ".join(exact_names), meta=meta_package)
        return (meta_package,)
    host.add_plan_reason(
        "kernel.headers_missing",
        kernel=facts.kernel,
        names=", ".join(exact_names),
        meta=meta_package or "none",
    )
    return exact_names + ((meta_package,) if meta_package else ())


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
    """Return whether the host must reboot, with the first reason that applies."""
    facts = host.facts
    if facts.newest_kernel and facts.newest_kernel != facts.kernel:
        host.add_plan_reason("kernel.newer_installed", newest=facts.newest_kernel, kernel=facts.kernel)
    for needed, noted_reason in (
        (installed_driver.nouveau, "nouveau is loaded"),
        (signing == "mok" and has_changes, "the module's key is enrolled during boot"),
        (
            _is_mismatched(installed_driver, target_version, has_changes),
            _describe_mismatch(installed_driver, target_version),
        ),
        (bool(facts.newest_kernel) and facts.newest_kernel != facts.kernel, "a newer kernel is installed"),
        (
            any(noted_reason.code == "kernel.headers_gone" for noted_reason in host.reasons),
            "the newest kernel must be running first",
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
