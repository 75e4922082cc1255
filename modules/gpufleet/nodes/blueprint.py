"""What a node's template tells Ansible: small host variables, each the input of some roles. Pure."""

from __future__ import annotations

from typing import Any

from gpufleet.fleet import Blueprint

SOFTWARE, APPLICATION = "gpufleet_software", "gpufleet_application"
HARDWARE, PORTS = "gpufleet_hardware", "gpufleet_open_ports"


def host_vars(blueprint: Blueprint) -> dict[str, Any]:
    """Return the variables of a node; steps that say nothing give none, so that roles keep their defaults."""
    told = {
        SOFTWARE: software(blueprint),
        HARDWARE: hardware(blueprint),
        APPLICATION: application(blueprint),
        PORTS: open_ports(blueprint),
    }
    return {name: value for name, value in told.items() if value}


def software(blueprint: Blueprint) -> dict[str, Any]:
    """Return what the driver plan and the engine's roles read; what is left to the plan is left out."""
    wanted = blueprint.software
    driver = {"vendor": wanted.driver.vendor, "branch": wanted.driver.branch}
    if wanted.driver.module != "auto":
        driver["module"] = wanted.driver.module
    told: dict[str, Any] = {
        "driver": driver,
        "cuda": wanted.cuda,
        "rocm": wanted.rocm,
        "container_engine": blueprint.engine,
        "container_toolkit": wanted.container_toolkit,
        "mig": [cards.model_dump(mode="json") for cards in wanted.mig] if wanted.mig else None,
    }
    return told if wanted.origin == "auto" else {**told, "origin": wanted.origin}


def hardware(blueprint: Blueprint) -> dict[str, Any]:
    """Return how drives, memory and network are to be laid out, where the template says so."""
    wanted, told = blueprint.hardware, dict[str, Any]()
    if wanted.storage.layout != "none":
        told["storage"] = wanted.storage.model_dump(mode="json")
    if wanted.hugepages:
        told["hugepages"] = wanted.hugepages.model_dump(mode="json")
    if wanted.mtu:
        told["mtu"] = wanted.mtu
    return told


def application(blueprint: Blueprint) -> dict[str, Any]:
    """Return the application as the spec has it, without what is default; the role reads it by the same models."""
    return blueprint.application.model_dump(mode="json", exclude_defaults=True)


def open_ports(blueprint: Blueprint) -> list[dict[str, Any]]:
    """Return the ports that containers are reached by, as the firewall's role takes them."""
    return [
        {"name": container.called, "ports": [str(port.host)], "protocol": port.protocol}
        for container in blueprint.application.containers
        for port in container.ports
        if not port.local
    ]
