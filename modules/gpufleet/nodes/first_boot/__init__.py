"""A rack file's nodes before they have ever booted: what cloud-init, firmware and netboot server are to be given.

In goes a rack with its ``boot`` section and keys; out come texts. Nothing here touches disk or network.
"""

from gpufleet.nodes.first_boot.cloud_init import SshHostKey
from gpufleet.nodes.first_boot.firmware import (
    build_boot_conf,
    build_eeprom_settings,
    encode_boot_order,
    find_raspberry_pi_board,
)
from gpufleet.nodes.first_boot.seed import (
    SECRET,
    NodeFirstBootFiles,
    RackFirstBootFiles,
    build_first_boot_files,
)

__all__ = [
    "SECRET",
    "NodeFirstBootFiles",
    "RackFirstBootFiles",
    "SshHostKey",
    "build_boot_conf",
    "build_eeprom_settings",
    "build_first_boot_files",
    "encode_boot_order",
    "find_raspberry_pi_board",
]
