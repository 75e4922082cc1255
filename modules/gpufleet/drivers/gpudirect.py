"""Plan NVIDIA's optional parts next to the driver: GPUDirect Storage (GDS) and gdrcopy."""

from __future__ import annotations

from gpufleet.drivers import package_choice
from gpufleet.drivers.branch import DriverChoice
from gpufleet.drivers.driver_plan import PlannedPackage
from gpufleet.drivers.host import HostPlanContext
from gpufleet.drivers.rule import build_refusal_error

# gdrcopy's own packaging: packages/build-deb-packages.sh and build-rpm-packages.sh.
GDRCOPY_PACKAGES = {
    "apt": ("gdrdrv-dkms", "libgdrapi", "gdrcopy-tests"),
    "dnf": ("gdrcopy-kmod", "gdrcopy", "gdrcopy-devel"),
}


def plan_gpudirect_packages(host: HostPlanContext, choice: DriverChoice) -> tuple[PlannedPackage, ...]:
    """Return the packages of the requested parts; raise PlanRefusedError if the host cannot have one."""
    names: tuple[str, ...] = ()
    if "gds" in host.requested.parts:
        names += _choose_gds_packages(host, choice)
    if "gdrcopy" in host.requested.parts:
        names += _choose_gdrcopy_packages(host, choice)
    return package_choice.choose_cuda_package_versions(host, names)


def _choose_gds_packages(host: HostPlanContext, choice: DriverChoice) -> tuple[str, ...]:
    patterns = choice.get_package_table(host).get("gds")
    if not patterns:
        raise build_refusal_error("gds.no_package", title=host.system_title, origin=choice.origin)
    if choice.module != "open":
        raise build_refusal_error("gds.module", module=choice.module)
    suffix = f"-{host.requested.cuda.replace('.', '-')}" if host.requested.cuda else ""
    names = tuple(pattern.format(cuda=suffix) for pattern in patterns)
    lead_package = package_choice.driver_package_names(host, choice)[0]
    missing = [name for name in names if not host.offered_package_versions(name)]
    if missing and host.offered_package_versions(lead_package):
        raise build_refusal_error("gds.not_offered", names=", ".join(missing))
    host.add_plan_reason("gds.planned", names=", ".join(names))
    return names


def _choose_gdrcopy_packages(host: HostPlanContext, choice: DriverChoice) -> tuple[str, ...]:
    if choice.get_package_table(host)["module"] != "dkms":
        raise build_refusal_error("gdrcopy.source", title=host.system_title)
    names = GDRCOPY_PACKAGES[str(host.system["manager"])]
    missing = [name for name in names if not host.offered_package_versions(name)]
    if missing:
        raise build_refusal_error("gdrcopy.no_package", names=", ".join(missing))
    host.add_plan_reason("gdrcopy.planned", names=", ".join(names))
    return names
