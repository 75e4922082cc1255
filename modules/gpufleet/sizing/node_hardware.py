"""Hardware of one node: a cloud's machine, an owned board, or an accelerator in its default host."""

from __future__ import annotations

from dataclasses import replace

from gpufleet import catalog
from gpufleet.catalog import Accelerator, Machine
from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.host import link_of, network_of, usual_host

RATES = (
    "bandwidth_gb_s", "fp32_tflops", "bf16_tflops_dense", "fp16_tflops_dense", "fp8_tflops_dense",
    "fp4_tflops_dense", "int8_tops_dense", "tdp_w",
)  # fmt: skip
BOARDS = {"Compute Blade CM4 8GB": "Compute Module 4 / Pi 4", "Raspberry Pi 5 8GB": "Compute Module 5 / Pi 5"}


def of_machine(machine: Machine) -> Hardware | None:
    """Return a cloud's machine, or one of our own kinds, as hardware; None for one without anything to run on."""
    if not machine.accelerators:
        return _of_board(machine)
    carried = machine.accelerators[0]
    part = resized(catalog.accelerator(carried.model), carried.memory_gib, carried.share)
    link, link_name = link_of(part, carried.count)
    network, kind, source = _network(machine, part)
    return Hardware(
        name=machine.name,
        accelerator=part,
        devices_per_node=carried.count,
        link_gb_s=link,
        link=link_name,
        network_gb_s=network,
        network=kind,
        peer_access=part.peer_access,
        unified=part.unified,
        host_memory_gib=machine.memory_gib,
        origin="workstation" if machine.cloud == "onprem" else "cloud",
        machine=machine.name,
        share=carried.share,
        why=source,
    )


def of_part(part: Accelerator) -> Hardware:
    """Return a bare part in its usual host."""
    host = usual_host(part)
    link, name = link_of(part, host.devices)
    return Hardware(
        name=part.name,
        accelerator=part,
        devices_per_node=host.devices,
        link_gb_s=link,
        link=name,
        network_gb_s=host.network_gb_s,
        network=host.network,
        peer_access=part.peer_access,
        unified=part.unified,
        host_memory_gib=part.memory_gib if part.unified else host.memory_gib,
        why=host.source,
    )


def joined(hardware: Hardware, devices: int) -> Hardware:
    """Return the hardware as so many devices of one node are joined: bridges join pairs only."""
    part = hardware.accelerator
    link, name = link_of(part, min(devices, hardware.devices_per_node))
    return hardware if name == hardware.link else replace(hardware, link_gb_s=link, link=name)


def resized(part: Accelerator, gib: float, share: float) -> Accelerator:
    """Return the part with another size of memory, or as the share of a card that a machine has of it."""
    if share != 1.0:
        scaled = {name: getattr(part, name) * share for name in RATES if getattr(part, name) is not None}
        return replace(part, memory_gib=gib, usable_gib=None, **scaled)
    if gib == part.memory_gib:
        return part
    usable = None if part.usable_gib is None else part.usable_gib * gib / part.memory_gib
    return replace(part, memory_gib=gib, usable_gib=usable)


def _network(machine: Machine, part: Accelerator) -> tuple[float, str, str]:
    """Return GB/s per device, the kind of network and its source: of ours, what such parts are usually joined with."""
    if machine.cloud == "onprem":
        host = usual_host(part)
        return host.network_gb_s, host.network, f"{machine.source}; network: {host.source}"
    network, kind, source = network_of(machine.name)
    return network / machine.accelerators[0].count, kind, source


def _of_board(machine: Machine) -> Hardware | None:
    """Return a board of ours (blades, Raspberry Pi) as hardware: its processor is what it runs on."""
    if machine.name not in BOARDS:
        return None
    part = resized(catalog.accelerator(BOARDS[machine.name]), machine.memory_gib, 1.0)
    kept = replace(of_part(part), name=machine.name, machine=machine.name)
    return replace(kept, origin="workstation", why=machine.source)
