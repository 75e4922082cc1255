"""A rack file's nodes before they have ever booted: what cloud-init, firmware and netboot server are to be given.

In goes a rack with its ``boot`` section and keys; out come texts. Nothing here touches disk or network.
"""

from gpufleet.nodes.first_boot.cloud_init import HostKey
from gpufleet.nodes.first_boot.firmware import boot_conf, boot_order, eeprom_settings, find_board
from gpufleet.nodes.first_boot.seed import SECRET, Export, Seed, export

__all__ = [
    "SECRET",
    "Export",
    "HostKey",
    "Seed",
    "boot_conf",
    "boot_order",
    "eeprom_settings",
    "export",
    "find_board",
]
