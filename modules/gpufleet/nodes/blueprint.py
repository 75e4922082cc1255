"""Host variables of a node's template: small values, each the input of some roles. Pure."""

from __future__ import annotations

from typing import Any

from gpufleet.fleet import Blueprint, installed_name

SOFTWARE, APPLICATION = "gpufleet_software", "gpufleet_application"
HARDWARE = "gpufleet_hardware"
BURN_IN_PROFILE, DEFAULT_BURN_IN_PROFILE = "gpufleet_burn_in_profile", "quick"


def build_blueprint_variables(blueprint: Blueprint) -> dict[str, Any]:
    """Return the variables of a node; steps without settings give none, so that roles keep their defaults."""
    variables = {
        SOFTWARE: build_software_variables(blueprint),
        HARDWARE: build_hardware_variables(blueprint),
        APPLICATION: build_application_variables(blueprint),
        BURN_IN_PROFILE: "" if blueprint.burn_in == DEFAULT_BURN_IN_PROFILE else blueprint.burn_in,
    }
    return {name: value for name, value in variables.items() if value}


def build_software_variables(blueprint: Blueprint) -> dict[str, Any]:
    """Return what the driver plan and the engine's roles read; what is left to the plan is left out."""
    profile = blueprint.software
    driver = {"vendor": profile.driver_vendor, "branch": profile.driver.branch}
    if profile.driver.module != "auto":
        driver["module"] = profile.driver.module
    variables: dict[str, Any] = {
        "driver": driver,
        "cuda": profile.cuda,
        "rocm": profile.rocm,
        "container_engine": blueprint.container_engine,
        "container_toolkit": profile.container_toolkit,
        "mig": [cards.model_dump(mode="json") for cards in profile.mig] if profile.mig else None,
    }
    parts = {"imex": profile.imex, "gds": profile.gds, "gdrcopy": profile.gdrcopy}
    variables.update({part: True for part, is_requested in parts.items() if is_requested})
    return variables if profile.origin == "auto" else {**variables, "origin": profile.origin}


def build_hardware_variables(blueprint: Blueprint) -> dict[str, Any]:
    """Return the layout of drives, memory and network, as far as the template declares it."""
    profile, variables = blueprint.hardware, dict[str, Any]()
    if profile.storage.layout != "none":
        variables["storage"] = profile.storage.model_dump(mode="json")
    if profile.hugepages:
        variables["hugepages"] = profile.hugepages.model_dump(mode="json")
    if profile.mtu:
        variables["mtu"] = profile.mtu
    return variables


def build_application_variables(blueprint: Blueprint) -> dict[str, Any]:
    """Return the container files with their text, and the folders of the volumes that they mount."""
    scratch = blueprint.hardware.storage.mount
    variables = {
        "container_files": [
            {"name": installed_name(file.path), "content": file.text} for file in blueprint.container_files
        ],
        "volumes": [volume.folder(scratch) for volume in blueprint.application.volumes],
    }
    return {name: value for name, value in variables.items() if value}
