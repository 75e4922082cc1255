"""NVMe drives in sysfs: model, size and PCIe link."""

from __future__ import annotations

import re
from typing import Any

from .host import HostAccess

LINK_FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")


def read_nvme_drive(host: HostAccess, sysfs_folder: str, controller: str) -> dict[str, Any]:
    """Return one drive's model, size and link, as the kernel says them."""
    sectors = next(
        (
            host.read_integer_file(f"{sysfs_folder}/{part}/size")
            for part in host.list_folder(sysfs_folder)
            if is_nvme_namespace(controller, part)
        ),
        None,
    )
    facts: dict[str, Any] = {"model": host.read_text_file(f"{sysfs_folder}/model"), "sectors": sectors}
    facts.update({key: host.read_text_file(f"{sysfs_folder}/device/{key}") for key in LINK_FILES})
    # The link `device` leads into the folder of the port that the drive is plugged into; a VM shows no port.
    ports = {key: host.read_text_file(f"{sysfs_folder}/device/../{key}") for key in LINK_FILES[2:]}
    facts.update({f"port_{key}": text for key, text in ports.items()})
    return facts


def is_nvme_namespace(controller: str, entry_name: str) -> bool:
    """Return whether a name is a namespace's folder (nvme0n1, or nvme0c0n1 with multipath) from other files."""
    return re.fullmatch(controller + r"(c\d+)?n\d+", entry_name) is not None
