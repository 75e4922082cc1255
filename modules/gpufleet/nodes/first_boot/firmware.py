"""What a Raspberry Pi's firmware reads: bootloader configuration, config.txt, cmdline.txt. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpufleet.boundary import read_packaged_rows, read_packaged_yaml
from gpufleet.errors import InputError
from gpufleet.fleet import BootMode, FirstBootSettings, Rack, RackNode

LONGEST_BOOT_CONF = 2024  # bytes; rpi-eeprom-config's MAX_BOOTCONF_SIZE


@dataclass(frozen=True)
class RaspberryPiBoard:
    """A board's settings; their sources are in data/boards.yaml."""

    name: str
    machine: str
    filter: str
    smart_fan_unit: list[str]
    pcie: dict[int, list[str]]
    eeprom: dict[str, int]
    eeprom_by: str


@cache
def load_raspberry_pi_boards() -> tuple[RaspberryPiBoard, ...]:
    """Return the boards that we know."""
    return tuple(RaspberryPiBoard(name, **fields) for name, fields in load_data_table("boards").items())


def load_data_table(name: str) -> Any:
    """Return one of the tables in ``data/``."""
    return read_packaged_yaml("gpufleet.nodes.first_boot", f"data/{name}.yaml")


def find_raspberry_pi_board(machine: str) -> RaspberryPiBoard:
    """Return the board that a machine of the catalogue is built on; InputError where we know of none."""
    board = next((board for board in load_raspberry_pi_boards() if board.machine in machine), None)
    if board is None:
        known_boards = ", ".join(board.machine for board in load_raspberry_pi_boards())
        raise InputError(
            f"no boot firmware is known for {machine!r}", key="machine", remedy=f"known: {known_boards}"
        )
    return board


@cache
def load_boot_modes() -> dict[str, tuple[str, str]]:
    """Return each boot mode's digit and meaning."""
    rows = read_packaged_rows("gpufleet.nodes.first_boot", "data/boot_modes.csv")
    return {row["mode"]: (row["digit"], row["meaning"]) for row in rows}


def encode_boot_order(order: Iterable[BootMode]) -> str:
    """Return BOOT_ORDER: one digit a mode, the first tried on the right. ``nvme, sd, usb, restart`` is 0xf416."""
    return "0x" + "".join(load_boot_modes()[mode][0] for mode in reversed(tuple(order)))


def build_eeprom_settings(boot: FirstBootSettings, board: RaspberryPiBoard) -> dict[str, str]:
    """Return the bootloader's settings by name; what is left out keeps the bootloader's own default."""
    settings = {
        "BOOT_ORDER": encode_boot_order(boot.boot_order),
        "NET_INSTALL_ENABLED": "0",
        "NET_INSTALL_AT_POWER_ON": "0",
        **{name: str(value) for name, value in board.eeprom.items()},
    }
    if boot.netboot:
        settings["TFTP_IP"] = str(boot.netboot.server)
        settings["TFTP_PREFIX"] = {"serial": "0", "mac": "2"}[boot.netboot.prefix]
        settings["NET_BOOT_MAX_RETRIES"] = "3"
    return settings


_SETTING_REASONS = {
    "NET_INSTALL_ENABLED": "A blade has no screen: ask nothing at start, which also saves a second.",
    "NET_INSTALL_AT_POWER_ON": "As above, for a cold start.",
    "PCIE_PROBE": "Look for an NVMe drive on boards that do not announce themselves as HAT+.",
    "TFTP_IP": "Ask this server, whatever DHCP says.",
    "TFTP_PREFIX": "Each node's folder on the TFTP server: 0 is its serial, 2 its MAC address.",
    "NET_BOOT_MAX_RETRIES": "How often before the next boot mode.",
}


def build_boot_conf(boot: FirstBootSettings, board: RaspberryPiBoard) -> str:
    """Return the bootloader's configuration with a reason at each setting."""
    lines = ["[all]"]
    for name, value in build_eeprom_settings(boot, board).items():
        lines += [f"# {reason}" for reason in _reasons(name, boot)]
        lines.append(f"{name}={value}")
    text = "\n".join(lines) + "\n"
    if len(text.encode()) > LONGEST_BOOT_CONF:
        raise InputError(f"the bootloader's boot.conf would have over {LONGEST_BOOT_CONF} bytes", key="boot")
    return text


def _reasons(name: str, boot: FirstBootSettings) -> list[str]:
    if name != "BOOT_ORDER":
        return [_SETTING_REASONS[name]]
    tried = [f"{load_boot_modes()[mode][0]} {load_boot_modes()[mode][1]}" for mode in boot.boot_order]
    return ["Tried from the right to the left:", *(f"  {step}" for step in tried)]


def build_config_txt_lines(boot: FirstBootSettings, board: RaspberryPiBoard) -> str:
    """Return what is to be appended to config.txt. No line of it touches vfat: this very file is on a FAT disk."""
    lines = [f"[{board.filter}]"]
    if boot.medium == "nvme":
        lines += board.pcie.get(boot.pcie_generation, [])
    if boot.fan_unit == "smart":
        lines += board.smart_fan_unit
    if boot.radio == "off":
        # Both from the firmware's overlays/README; a rack has a cable, and a radio is a way in.
        lines += ["dtoverlay=disable-wifi", "dtoverlay=disable-bt"]
    return "\n".join([*lines, "[all]"]) + "\n"


def build_kernel_arguments(
    rack: Rack, boot: FirstBootSettings, node: RackNode, instance_id: str, *, includes_seed_id: bool
) -> str:
    """Return what cmdline.txt is to carry, on its one line: the seed's id, and where a netboot finds its root.

    A netboot gives itself the slot's address: the NFS server knows each node's root by it, and no DHCP server does.
    """
    arguments = []
    if boot.netboot and boot.medium == "netboot":
        root = boot.netboot.nfs_root.format(name=node.name)
        arguments += [
            "root=/dev/nfs",
            f"nfsroot={boot.netboot.server}:{root},vers=3",
            "rw",
            f"ip={_ip_argument(rack, boot, node)}",
            "rootwait",
        ]
    if includes_seed_id:
        arguments.append(f"ds=nocloud;i={instance_id}")
    return " ".join(arguments) + "\n" if arguments else ""


def _ip_argument(rack: Rack, boot: FirstBootSettings, node: RackNode) -> str:
    """Return the kernel's ip=CLIENT:SERVER:GATEWAY:NETMASK:NAME:DEVICE:AUTOCONF; no device means the one there is."""
    if node.address is None or rack.network is None:
        return "dhcp"
    return f"{node.address}::{boot.gateway or ''}:{rack.network.cidr.netmask}:{node.name}::off"


def list_unsupported_settings(boot: FirstBootSettings, board: RaspberryPiBoard) -> list[str]:
    """Return requested settings that are not written, with the reason."""
    notes = []
    if boot.fan_unit == "smart" and not board.smart_fan_unit:
        notes.append(f"fan_unit smart: the maker's documents name no overlay for {board.machine}")
    if boot.pcie_generation == 3 and 3 not in board.pcie:  # noqa: PLR2004 - the generation's number
        notes.append(f"pcie_generation 3: {board.machine} has PCIe 2.0 only")
    return notes
