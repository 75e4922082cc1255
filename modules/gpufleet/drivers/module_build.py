"""Whether the module of NVIDIA's driver builds on a kernel: known breaks by branch, and the release that fixed each."""

from __future__ import annotations

import re

from gpufleet.drivers import branch
from gpufleet.drivers.branch import DriverChoice
from gpufleet.drivers.data_file import NvidiaKernelBreak, load_driver_branches, load_nvidia_kernel_breaks
from gpufleet.drivers.host import HostPlanContext
from gpufleet.drivers.installed import InstalledDriver
from gpufleet.drivers.kernel import is_realtime_kernel
from gpufleet.drivers.package_choice import DriverPackageSet
from gpufleet.drivers.rule import build_refusal_error
from gpufleet.drivers.version import parse_kernel_series, parse_upstream_version, version_sort_key

DEBIAN = "debian"


def check_module_build(
    host: HostPlanContext,
    installed: InstalledDriver,
    choice: DriverChoice,
    package_set: DriverPackageSet,
    *,
    is_kept: bool,
) -> None:
    """Raise PlanRefusedError if the driver does not build on the running or the next kernel; add a reported break.

    A driver that is loaded has been built, whatever the table says. One that is kept survives until the restart.
    """
    if choice.get_package_table(host)["module"] != "dkms" or host.facts.rehearsed or host.facts.container:
        return
    version = _find_module_version(host, choice, package_set)
    facts, is_loaded = host.facts, bool(installed.loaded) and installed.loaded == package_set.version
    if not is_loaded and is_realtime_kernel(facts.kernel):
        raise build_refusal_error("kernel.realtime", kernel=facts.kernel)
    broken = None if is_loaded else find_kernel_break(host, choice, version, facts.kernel)
    if broken is not None:
        values = _describe_break(host, choice, version, broken, facts.kernel)
        if broken.certainty == "confirmed":
            raise build_refusal_error("driver.kernel_breaks", broken.sources[0], **values)
        host.add_sourced_reason("driver.kernel_reported", broken.sources[0], **values)
    if not facts.newest_kernel or facts.newest_kernel == facts.kernel:
        return
    if is_realtime_kernel(facts.newest_kernel):
        if not (is_kept and is_loaded):
            raise build_refusal_error("kernel.realtime", kernel=facts.newest_kernel)
        remedy = "start a kernel without PREEMPT_RT"
        host.add_sourced_reason(
            "driver.newest_kernel_breaks",
            "nvidia-1240",
            version=version,
            kernel=facts.newest_kernel,
            remedy=remedy,
        )
        return
    broken = find_kernel_break(host, choice, version, facts.newest_kernel)
    if broken is None or broken.certainty != "confirmed":
        return
    values = _describe_break(host, choice, version, broken, facts.newest_kernel)
    if is_kept and is_loaded:
        host.add_sourced_reason("driver.newest_kernel_breaks", broken.sources[0], **values)
        return
    raise build_refusal_error("driver.kernel_breaks", broken.sources[0], **values)


def find_kernel_break(
    host: HostPlanContext, choice: DriverChoice, version: str | None, kernel: str
) -> NvidiaKernelBreak | None:
    """Return the first kernel on which a version does not build, if it is not newer than this one: confirmed first."""
    return min(
        _list_breaks(host, choice, version, kernel),
        key=lambda row: (row.certainty != "confirmed", parse_kernel_series(row.breaks_from)),
        default=None,
    )


def _list_breaks(
    host: HostPlanContext, choice: DriverChoice, version: str | None, kernel: str
) -> list[NvidiaKernelBreak]:
    """Return the breaks of a version up to a kernel; without a version only those that no release fixes."""
    return [
        row
        for row in _select_rows(host, choice)
        if parse_kernel_series(kernel) >= parse_kernel_series(row.breaks_from)
        and (not row.fixed_in or (version is not None and _sort_key(version) < _sort_key(row.fixed_in)))
    ]


def _select_rows(host: HostPlanContext, choice: DriverChoice) -> list[NvidiaKernelBreak]:
    """Return the breaks of a branch; Debian backports fixes into its own packages, which have rows of their own."""
    rows = [row for row in load_nvidia_kernel_breaks() if row.branch == choice.branch]
    is_debian = choice.origin == "distribution" and host.distribution == DEBIAN
    debian_rows = [row for row in rows if row.origin == DEBIAN]
    return debian_rows if is_debian and debian_rows else [row for row in rows if not row.origin]


def _find_module_version(
    host: HostPlanContext, choice: DriverChoice, package_set: DriverPackageSet
) -> str | None:
    """Return the version of the package with the module's source, with its revision; else NVIDIA's version."""
    versions = {package.name: package.version for package in package_set.packages}
    names = choice.get_package_table(host)["sets"][0][choice.module]
    return next((versions[name] for name in names if versions.get(name)), package_set.version)


def _sort_key(version: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sort key of a version with Debian's revision: 550.163.01-5 is older than 550.163.01-5.1."""
    revision = re.search(r"-([\d.]{1,18})", version)
    return version_sort_key(parse_upstream_version(version)), (
        version_sort_key(revision[1]) if revision else ()
    )


def _describe_break(
    host: HostPlanContext, choice: DriverChoice, version: str | None, broken: NvidiaKernelBreak, kernel: str
) -> dict[str, object]:
    releases = [
        row.fixed_in
        for row in _list_breaks(host, choice, version, kernel)
        if row.certainty == broken.certainty
    ]
    # The release that builds on this kernel, not only on the first that broke.
    fixes = [f"use {max(releases, key=_sort_key)} or newer"] if all(releases) else []
    other = _find_other_branch(host, choice, kernel)
    if other is not None:
        fixes.append(f"request branch {other} with origin: vendor")
    fixes.append(f"start a kernel older than {broken.breaks_from} and hold it")
    return {
        "version": version or f"of branch {choice.branch}",
        "kernel": kernel,
        "remedy": "; or ".join(fixes),
    }


def _find_other_branch(host: HostPlanContext, choice: DriverChoice, kernel: str) -> int | None:
    """Return the preferred maintained branch of NVIDIA's repository that has a release for a kernel."""
    if not host.has_vendor_packages:
        return None
    first, last = branch.supported_driver_branch_range(host.detected.nvidia)
    numbers = [
        number
        for number in load_driver_branches()
        if first <= number <= last
        and number != choice.branch
        and not branch.is_driver_branch_end_of_life(load_driver_branches()[number], host.facts.date)
        and find_kernel_break(host, DriverChoice(number, choice.module, "vendor"), None, kernel) is None
    ]
    return branch.choose_preferred_driver_branch(numbers, host.facts.date)
