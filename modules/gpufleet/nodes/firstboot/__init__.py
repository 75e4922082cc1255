"""A rack file's nodes before they have ever booted: what cloud-init, firmware and netboot server are to be given.

In goes a rack with its ``boot`` section and keys; out come texts. Nothing here touches disk or network.
"""

from gpufleet.nodes.firstboot.cloudinit import HostKey
from gpufleet.nodes.firstboot.firmware import board_of, boot_conf, boot_order, eeprom_settings
from gpufleet.nodes.firstboot.seeds import SECRET, Export, Seed, export

__all__ = [
    "SECRET",
    "Export",
    "HostKey",
    "Seed",
    "board_of",
    "boot_conf",
    "boot_order",
    "eeprom_settings",
    "export",
]
