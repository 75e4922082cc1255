"""The three operations on rehearsed racks: up, status, down.

Each can be interrupted at any moment and repeated: `up` creates only what is missing or outdated, `down` stops and
removes everything with this rehearsal's name prefix.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.boundary import OWN_STATE, decode_json_object, read_bytes
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.rehearsal import packages
from gpufleet.rehearsal.rack import (
    cgroups,
    host_processes,
    hosts,
    images,
    inotify,
    layout,
    loop_devices,
    network,
    pci,
)
from gpufleet.rehearsal.rack.faults import FaultPlan
from gpufleet.rehearsal.rack.hosts import HostRecord, HostStatus
from gpufleet.rehearsal.rack.keys import KEY_NAME, ensure_ssh_key, format_known_hosts
from gpufleet.rehearsal.rack.plan import (
    HostPlan,
    RehearsalHome,
    choose_rack_networks,
    plan_hosts,
    rehearsal_name_prefix,
)
from gpufleet.rehearsal.rack.requirements import find_missing_requirement
from gpufleet.rehearsal.rack.shell import Reporter, exclusive_lock, write_file_atomically

if TYPE_CHECKING:
    from gpufleet.fleet import StackRack

LOCKS = Path("/run/lock")
NSPAWN_PROPAGATE = Path("/run/systemd/nspawn/propagate")


def start_racks(
    rehearsal: RehearsalHome, racks: Sequence[StackRack], faults: FaultPlan, report: Reporter
) -> tuple[HostStatus, ...]:
    """Boot a host with its faults for every node of the racks; return their status."""
    if reason := find_missing_requirement():
        raise EnvironmentFault(f"rehearsed hosts cannot be booted here: {reason}")
    with _rack_lock(rehearsal, report):
        write_file_atomically(_home_record(rehearsal.home), f"{rehearsal.home.resolve()}\n")
        plans = _plan_hosts(rehearsal, racks, faults)
        for model in sorted(
            {model for plan in plans for model in pci.list_models_without_pci_id(plan.accelerators)}
        ):
            report(f"no PCI id is known for {model}: hosts with it have no PCI device")
        base_images = {
            (suite, arch): images.ensure_base_image(arch, report, suite)
            for suite, arch in sorted({plan.image_key for plan in plans})
        }
        bridge = rehearsal_name_prefix(rehearsal.home)
        _remove_hosts(
            rehearsal, set(network.list_host_labels(bridge)) - {plan.label for plan in plans}, report
        )
        hosts.remove_unplanned_host_files(rehearsal.home / "rack", plans)
        _serve_packages(rehearsal, plans, base_images, report)
        outdated = _find_outdated(bridge, plans, base_images)
        _remove_hosts(rehearsal, {plan.label for plan in outdated}, report)
        loop_devices.detach_loop_devices(
            rehearsal.home / "rack",
            [file for plan in plans for file in loop_devices.list_drive_files(plan)],
        )
        _boot_hosts(rehearsal, bridge, outdated, base_images, report)
        network.apply_link_faults(plans)
        _write_address_files(rehearsal, plans)
        hosts.wait_until_hosts_up(plans, images.native_arch(), report)
        return collect_host_statuses(rehearsal)


def collect_host_statuses(rehearsal: RehearsalHome) -> tuple[HostStatus, ...]:
    """Return the status of each host of the rehearsal."""
    return hosts.collect_recorded_host_statuses(hosts.read_host_records(rehearsal.home / "rack"))


def stop_racks(rehearsal: RehearsalHome, report: Reporter = lambda _line: None) -> None:
    """Stop every host of the rehearsal and remove its network, devices and files. Can be repeated."""
    if reason := find_missing_requirement():
        if (rehearsal.home / "rack").exists():
            raise EnvironmentFault(f"rehearsed hosts cannot be stopped from here: {reason}")
        return
    bridge = rehearsal_name_prefix(rehearsal.home)
    with _rack_lock(rehearsal, report):
        _remove_hosts(rehearsal, set(network.list_host_labels(bridge)), report)
        loop_devices.detach_loop_devices(rehearsal.home / "rack")
        packages.stop_package_server(rehearsal.home, bridge)
        network.remove_bridge(bridge)
        cgroups.remove_cgroup(bridge)
        for file in _address_files(rehearsal):
            file.unlink(missing_ok=True)
        shutil.rmtree(rehearsal.home / "rack", ignore_errors=True)
        _home_record(rehearsal.home).unlink(missing_ok=True)


@dataclass(frozen=True)
class DeletedRehearsal:
    """A rehearsal whose folder was deleted while its hosts ran."""

    home: Path


def find_deleted_rehearsals() -> tuple[DeletedRehearsal, ...]:
    """Return the rehearsals of this machine with running hosts and a deleted home folder."""
    homes = (Path(file.read_text().strip()) for file in sorted(LOCKS.glob("gpufleet-*.home")))
    return tuple(
        DeletedRehearsal(home)
        for home in homes
        if not home.exists() and network.list_host_labels(rehearsal_name_prefix(home))
    )


def _home_record(home: Path) -> Path:
    """Return the file that maps this rehearsal's name prefix to its home; it is outside the project's folder."""
    return LOCKS / f"gpufleet-{rehearsal_name_prefix(home)}.home"


def _plan_hosts(rehearsal: RehearsalHome, racks: Sequence[StackRack], faults: FaultPlan) -> list[HostPlan]:
    """Plan the hosts; each rack keeps its network, so that addresses stay the same."""
    bridge, networks_file = rehearsal_name_prefix(rehearsal.home), rehearsal.home / "rack" / ".networks"
    with exclusive_lock(LOCKS / "gpufleet-networks.lock", lambda _line: None, "chooses networks"):
        previous = _read_networks(networks_file)
        blocks = choose_rack_networks(
            [rack_use.name for rack_use in racks], previous, network.find_used_network_numbers(bridge)
        )
        plans = plan_hosts(rehearsal.home.resolve(), racks, blocks, faults, images.native_arch())
        write_file_atomically(networks_file, json.dumps(blocks))
        network.ensure_bridge(bridge, blocks.values())
    return plans


def _read_networks(file: Path) -> dict[str, int]:
    """Return rack -> network; empty if the file is missing or damaged, then new networks are chosen."""
    try:
        networks = decode_json_object(read_bytes(file, OWN_STATE), str(file), OWN_STATE)
    except InputError:
        return {}
    return {rack: block for rack, block in networks.items() if isinstance(block, int)}


def _serve_packages(
    rehearsal: RehearsalHome,
    plans: Sequence[HostPlan],
    base_images: Mapping[tuple[str, str], Path],
    report: Reporter,
) -> None:
    """Start the package server on every gateway; hosts boot without it too."""
    suites = {images.image_suite(image) for image in base_images.values()}
    packages.start_package_server(
        rehearsal.home,
        rehearsal_name_prefix(rehearsal.home),
        {plan.gateway_address for plan in plans},
        suites,
        report,
    )


def _find_outdated(
    bridge: str, plans: Sequence[HostPlan], base_images: Mapping[tuple[str, str], Path]
) -> list[HostPlan]:
    """Return the hosts that do not run, do not answer, or were started with other parameters."""
    broken = {plan.label for plan in network.find_unconnected_hosts(bridge, plans)}
    process_ids = host_processes.find_host_processes(plan.label for plan in plans)
    running = [
        p
        for p in plans
        if p.label not in broken and host_processes.find_init_pid(process_ids.get(p.label, []))
    ]
    up_to_date = [p for p in running if _matches_record(p, base_images[p.image_key])]
    ssh_by_address = hosts.check_ssh_servers([p.ip_address for p in up_to_date if p.should_answer_ssh])
    healthy = {plan.label for plan in up_to_date if ssh_by_address.get(plan.ip_address, True)}
    return [plan for plan in plans if plan.label not in healthy]


def _matches_record(plan: HostPlan, image: Path) -> bool:
    record = hosts.read_host_record(plan.folder)
    return record == HostRecord.from_plan(plan, image)


def _boot_hosts(
    rehearsal: RehearsalHome,
    bridge: str,
    plans: Sequence[HostPlan],
    base_images: Mapping[tuple[str, str], Path],
    report: Reporter,
) -> None:
    if plans:
        report(f"hosts: starting {len(plans)}")
    operator_key = ensure_ssh_key(rehearsal.home / "ssh" / KEY_NAME, "gpufleet-rehearsal")
    for plan in plans:
        apt_files = packages.build_apt_config_files(
            plan.gateway_address, images.image_suite(base_images[plan.image_key])
        )
        layout.write_host_files(plan, base_images[plan.image_key], operator_key, apt_files)
        _write_drive_records(plan)
    network.connect_hosts(bridge, plans)
    inotify.raise_inotify_limit(
        len(network.list_host_labels("gf")), report
    )  # hosts of other rehearsals count too
    for plan in plans:
        hosts.start_host(plan, base_images[plan.image_key], loop_devices.attach_loop_devices(plan))


def _write_drive_records(plan: HostPlan) -> None:
    layout.write_udev_records(
        plan, loop_devices.build_udev_tmpfiles(plan, loop_devices.attach_loop_devices(plan))
    )


def _remove_hosts(rehearsal: RehearsalHome, labels: set[str], report: Reporter) -> None:
    """Stop the hosts with these labels, then remove their links, namespaces and cgroups."""
    if running := host_processes.find_host_processes(labels):
        report(f"hosts: stopping {len(running)}")
    if remaining := host_processes.stop_hosts(labels):
        raise EnvironmentFault(
            f"hosts do not stop: {' '.join(remaining)}", hint="run `gpufleet rehearse down` again"
        )
    network.disconnect_hosts(labels)
    for label in labels:
        cgroups.remove_cgroup(f"{rehearsal_name_prefix(rehearsal.home)}/{label}")
        shutil.rmtree(NSPAWN_PROPAGATE / label, ignore_errors=True)


def _address_files(rehearsal: RehearsalHome) -> tuple[Path, Path]:
    """Return the address book and the known-hosts file."""
    return rehearsal.home / "addresses.json", rehearsal.home / "ssh" / "known_hosts"


def _write_address_files(rehearsal: RehearsalHome, plans: Sequence[HostPlan]) -> None:
    addresses, known_hosts_file = _address_files(rehearsal)
    write_file_atomically(
        addresses, json.dumps({plan.place: plan.ip_address for plan in plans}, indent=1) + "\n"
    )
    write_file_atomically(
        known_hosts_file,
        format_known_hosts({plan.ip_address: layout.read_public_host_key(plan) for plan in plans}),
    )


def _rack_lock(rehearsal: RehearsalHome, report: Reporter) -> AbstractContextManager[None]:
    return exclusive_lock(
        LOCKS / f"gpufleet-{rehearsal_name_prefix(rehearsal.home)}.lock", report, "uses this rack"
    )
