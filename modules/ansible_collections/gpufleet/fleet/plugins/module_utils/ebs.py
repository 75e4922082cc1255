# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The device name that AWS attached an EBS volume as; the kernel numbers NVMe disks as it finds them.

The name is in the vendor's part of the volume's identify data (EBS user guide, "Amazon EBS volumes and NVMe"), at the
offsets that ebsnvme-id of amazonlinux/amazon-ec2-utils reads. Both read 2026-11-23.
"""

from __future__ import annotations

import ctypes
import fcntl
import re
import struct
from pathlib import Path

MODEL = "Amazon Elastic Block Store"
ADMIN_COMMAND = 0xC0484E41  # NVME_IOCTL_ADMIN_CMD of linux/nvme_ioctl.h
COMMAND = struct.Struct("=BBHIIIQQIIIIIIIIII")  # struct nvme_passthru_cmd there
IDENTIFY = 0x06
SIZE = 4096
NAMESPACE, CONTROLLER = 0, 1  # what to identify
# Where the vendor's part begins (NVM Express base specification, figures of the two structures), and the name's length.
VENDOR_PART = {NAMESPACE: 384, CONTROLLER: 3072}
NAME_LENGTH = 32


def read_device_name(path: str) -> str:
    """Return the name, such as ``sdf``, of an EBS volume; empty if it has none or does not answer."""
    number = re.search(r"n([0-9]+)$", path)
    # A controller with several volumes has each one's name in its namespace; others leave that part empty.
    sources = [*([(NAMESPACE, int(number[1]))] if number else []), (CONTROLLER, 0)]
    try:
        with Path(path).open("rb") as device:
            names = [
                parse_device_name(identify(device.fileno(), structure, namespace), structure)
                for structure, namespace in sources
            ]
    except OSError:
        return ""
    return next(filter(None, names), "")


def identify(descriptor: int, structure: int, namespace: int) -> bytes:
    """Return the identify data of a controller or a namespace, as the device gives it to its kernel."""
    data = ctypes.create_string_buffer(SIZE)
    command = COMMAND.pack(
        IDENTIFY, 0, 0, namespace, 0, 0, 0, ctypes.addressof(data), 0, SIZE, structure, 0, 0, 0, 0, 0, 0, 0
    )
    fcntl.ioctl(descriptor, ADMIN_COMMAND, bytearray(command))
    return data.raw


def parse_device_name(data: bytes, structure: int) -> str:
    """Return the device name in identify data, without ``/dev/``."""
    start = VENDOR_PART[structure]
    name = data[start : start + NAME_LENGTH].split(b"\0")[0].decode("ascii", errors="replace").strip()
    return name.removeprefix("/dev/")
