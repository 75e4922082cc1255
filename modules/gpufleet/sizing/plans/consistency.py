"""Consistency of a request: named hardware must not contradict its other options."""

from __future__ import annotations

from gpufleet import catalog
from gpufleet.catalog import data_file
from gpufleet.errors import InputError
from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.plans.request import SizingRequest

OWNED_ORIGINS = ("rack", "workstation")


def check_request_allows_hardware(request: SizingRequest, hardware: Hardware) -> None:
    """Raise InputError if --cloud, --region, --purchase or --owned exclude the named hardware."""
    if hardware.origin == "cloud":
        _check_cloud(request, hardware)
    if hardware.origin not in OWNED_ORIGINS and request.owned_only:
        raise _conflict(
            f"{hardware.name} is not owned", "--owned", "leave --owned out, or name a rack or workstation"
        )
    if hardware.origin in OWNED_ORIGINS and hardware.offers:
        for where, option_values in (("--cloud", request.clouds), ("--region", request.regions)):
            if option_values:
                raise _conflict(
                    f"{hardware.name} is owned hardware, not in a cloud", where, f"leave {where} out"
                )
        if request.purchases and "owned" not in request.purchases:
            raise _conflict(
                f"{hardware.name} is owned", "--purchase", "leave it out, or give --purchase owned"
            )


def _check_cloud(request: SizingRequest, hardware: Hardware) -> None:
    clouds = {cloud for cloud, name in data_file.load_machines() if name == hardware.machine}
    if hardware.attached_card:
        clouds = {"gcp"}
    if request.clouds and not clouds & set(request.clouds):
        raise _conflict(
            f"{hardware.name} is a machine of {' and '.join(sorted(clouds))}",
            "--cloud",
            "name its cloud, or leave it out",
        )
    known_regions = {region for cloud in clouds for region in catalog.list_accelerator_regions(cloud)}
    if request.regions and not known_regions & set(request.regions):
        raise _conflict(
            f"{request.regions[0]} is not a region of {' or '.join(sorted(clouds))}, which offers {hardware.name}",
            "--region", "name a region of that cloud, or leave it out",
        )  # fmt: skip
    if "owned" in request.purchases and len(request.purchases) == 1:
        raise _conflict(f"{hardware.name} is rented", "--purchase", "give on_demand, spot or a reservation")


def _conflict(problem: str, where: str, remedy: str) -> InputError:
    return InputError(problem, where=where, remedy=remedy)
