"""A rack file's nodes before they have ever booted: what cloud-init, firmware and netboot server are to be given.

In goes a rack with its ``boot`` section and keys; out come texts. Nothing here touches disk or network.
"""

from gpufleet.nodes.first_boot.cloud_init import SshHostKey
from gpufleet.nodes.first_boot.firmware import encode_boot_order
from gpufleet.nodes.first_boot.seed import SECRET, RackFirstBootFiles, build_first_boot_files

__all__ = ["SECRET", "RackFirstBootFiles", "SshHostKey", "build_first_boot_files", "encode_boot_order"]
