"""Hardware of one node: a cloud's machine, an owned board, or an accelerator in its default host."""

from __future__ import annotations

from dataclasses import replace

from gpufleet import catalog
from gpufleet.catalog import Accelerator, Machine
from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.host import find_default_host, find_device_interconnect, find_machine_network

SCALED_FIELDS = (
    "bandwidth_gb_s", "fp32_tflops", "bf16_tflops_dense", "fp16_tflops_dense", "fp8_tflops_dense",
    "fp4_tflops_dense", "int8_tops_dense", "tdp_w",
)  # fmt: skip


def build_machine_hardware(machine: Machine) -> Hardware | None:
    """Return a cloud or owned machine as hardware; None for one without an accelerator."""
    if not machine.accelerators:
        return _build_board_hardware(machine)
    attached = machine.accelerators[0]
    accelerator = scale_accelerator(
        catalog.get_accelerator(attached.model), attached.memory_gib, attached.share
    )
    link, link_name = find_device_interconnect(accelerator, attached.count)
    network, kind, source = _find_machine_network(machine, accelerator)
    return Hardware(
        name=machine.name,
        accelerator=accelerator,
        devices_per_node=attached.count,
        link_gb_s=link,
        link=link_name,
        network_gb_s=network,
        network=kind,
        peer_access=accelerator.peer_access,
        unified=accelerator.unified,
        host_memory_gib=machine.memory_gib,
        origin="workstation" if machine.cloud == "onprem" else "cloud",
        machine=machine.name,
        share=attached.share,
        host_source=source,
    )


def build_accelerator_hardware(accelerator: Accelerator) -> Hardware:
    """Return a bare accelerator in its default host."""
    host = find_default_host(accelerator)
    link, name = find_device_interconnect(accelerator, host.devices)
    return Hardware(
        name=accelerator.name,
        accelerator=accelerator,
        devices_per_node=host.devices,
        link_gb_s=link,
        link=name,
        network_gb_s=host.network_gb_s,
        network=host.network,
        peer_access=accelerator.peer_access,
        unified=accelerator.unified,
        host_memory_gib=accelerator.memory_gib if accelerator.unified else host.memory_gib,
        host_source=host.source,
    )


def with_link_for_device_count(hardware: Hardware, device_count: int) -> Hardware:
    """Return the hardware with the link between ``devices`` devices of one node: NVLink bridges join pairs only."""
    accelerator = hardware.accelerator
    link, name = find_device_interconnect(accelerator, min(device_count, hardware.devices_per_node))
    if hardware.slot_gb_s and name.startswith("PCIe"):
        link = min(link, hardware.slot_gb_s)
    return hardware if name == hardware.link else replace(hardware, link_gb_s=link, link=name)


def scale_accelerator(accelerator: Accelerator, gib: float, share: float) -> Accelerator:
    """Return the accelerator with another memory size, or scaled to the share of a card that a machine has."""
    if share != 1.0:
        scaled = {
            name: getattr(accelerator, name) * share
            for name in SCALED_FIELDS
            if getattr(accelerator, name) is not None
        }
        return replace(accelerator, memory_gib=gib, usable_gib=None, **scaled)
    if gib == accelerator.memory_gib:
        return accelerator
    usable = None if accelerator.usable_gib is None else accelerator.usable_gib * gib / accelerator.memory_gib
    return replace(accelerator, memory_gib=gib, usable_gib=usable)


def _find_machine_network(machine: Machine, accelerator: Accelerator) -> tuple[float, str, str]:
    """Return GB/s per device, the network kind and its source; owned machines get the default host's network."""
    if machine.cloud == "onprem":
        host = find_default_host(accelerator)
        return host.network_gb_s, host.network, f"{machine.source}; network: {host.source}"
    network, kind, source = find_machine_network(machine.name, machine.cloud)
    return network / machine.accelerators[0].count, kind, source


def _build_board_hardware(machine: Machine) -> Hardware | None:
    """Return an owned board (blades, Raspberry Pi) as hardware: the model runs on its CPU."""
    if not machine.board:
        return None
    accelerator = scale_accelerator(catalog.get_accelerator(machine.board), machine.memory_gib, 1.0)
    hardware = replace(build_accelerator_hardware(accelerator), name=machine.name, machine=machine.name)
    return replace(hardware, origin="workstation", host_source=machine.source)
