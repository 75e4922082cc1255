"""Plan the CUDA toolkit: supported branches, packages and forward compatibility."""

from __future__ import annotations

import re

from gpufleet.drivers import branch, package_choice
from gpufleet.drivers.branch import DriverChoice
from gpufleet.drivers.data_file import load_cuda_releases
from gpufleet.drivers.detection import get_gpu_architecture
from gpufleet.drivers.driver_plan import CudaPlan, PlannedPackage
from gpufleet.drivers.host import HostPlanContext
from gpufleet.drivers.rule import build_refusal_error
from gpufleet.drivers.version import version_sort_key


def plan_cuda_toolkit(host: HostPlanContext, driver_choice: DriverChoice) -> CudaPlan | None:
    """Return the plan for the toolkit; raise PlanRefusedError if cards or branch do not support it."""
    version = host.requested.cuda
    if version is None:
        return None
    min_branch = branch.min_driver_branch_for_cuda(version)
    _refuse_unsupported_cards(host, version)
    compat = _compat_packages(host, driver_choice, version) if driver_choice.branch < min_branch else ()
    release = load_cuda_releases()[version]
    if not compat and driver_choice.branch < int(release.toolkit_driver.split(".")[0]):
        host.add_plan_reason("cuda.minor", cuda=version, toolkit=release.toolkit_driver)
    names = branch.cuda_package_names(driver_choice.get_package_table(host), version)
    if not names:
        known = ", ".join(driver_choice.get_package_table(host).get("cuda", {})) or "none"
        raise build_refusal_error(
            "cuda.packages", cuda=version, origin=driver_choice.origin, title=host.system_title, known=known
        )
    _refuse_missing_packages(host, driver_choice, names)
    return CudaPlan(version, package_choice.choose_cuda_package_versions(host, names), compat)


def _refuse_missing_packages(
    host: HostPlanContext, driver_choice: DriverChoice, names: tuple[str, ...]
) -> None:
    """Raise PlanRefusedError if the origin's registered repository has the driver but not this toolkit."""
    lead_package = package_choice.driver_package_names(host, driver_choice)[0]
    missing = [name for name in names if not host.offered_package_versions(name)]
    if missing and host.offered_package_versions(lead_package):
        pattern = re.compile(r"cuda-toolkit-(\d+)-(\d+)")
        offered = [match for name in host.facts.candidates or () if (match := pattern.fullmatch(name))]
        known = ", ".join(f"{match[1]}.{match[2]}" for match in offered) or "none"
        raise build_refusal_error(
            "cuda.not_offered", names=", ".join(missing), title=host.system_title, known=known
        )


def _refuse_unsupported_cards(host: HostPlanContext, version: str) -> None:
    for card in host.detected.nvidia:
        generation = get_gpu_architecture(card)
        if generation.last_cuda is not None and version_sort_key(version)[0] > generation.last_cuda:
            last = generation.last_cuda
            raise build_refusal_error(
                "cuda.dropped", cuda=version, architecture=generation.name, name=card.display_name, last=last
            )
        if version_sort_key(version) < version_sort_key(generation.first_cuda):
            first = generation.first_cuda
            raise build_refusal_error(
                "cuda.too_old",
                cuda=version,
                architecture=generation.name,
                name=card.display_name,
                first=first,
            )


def _compat_packages(host: HostPlanContext, choice: DriverChoice, version: str) -> tuple[PlannedPackage, ...]:
    """Return the forward compatibility packages; only datacenter cards support them."""
    min_branch = branch.min_driver_branch_for_cuda(version)
    other_card = next((card for card in host.detected.nvidia if card.market != "datacenter"), None)
    if other_card is not None:
        raise build_refusal_error(
            "cuda.no_compat",
            cuda=version,
            least=min_branch,
            branch=choice.branch,
            name=other_card.display_name,
        )
    major, minor = version.split(".")
    names = [
        name.format(major=major, minor=minor)
        for name in choice.get_package_table(host).get("compat_packages", ())
    ]
    if not names:
        raise build_refusal_error(
            "cuda.newer_than_branch", cuda=version, least=min_branch, branch=choice.branch
        )
    host.add_plan_reason("cuda.compat", cuda=version, branch=choice.branch)
    return package_choice.choose_cuda_package_versions(host, names)
