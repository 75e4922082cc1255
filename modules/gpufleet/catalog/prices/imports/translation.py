"""Translate the names of price sources into catalogue names (accelerators.csv)."""

from __future__ import annotations

import re

from gpufleet.catalog.cloud import CLOUDS
from gpufleet.errors import InputError

# Of the three clouds: if a name is ambiguous, the machine's row in machines.csv takes precedence.
CATALOG_NAMES = {
    "a100": "A100 SXM4 40GB",
    "a10080gb": "A100 SXM4 80GB",
    "h100": "H100 SXM5 80GB",
    "h10080gb": "H100 SXM5 80GB",
    "h100mega": "H100 SXM5 80GB",
    "h100mega80gb": "H100 SXM5 80GB",
    "h100nvl": "H100 NVL 94GB",
    "h200": "H200 SXM 141GB",
    "h200141gb": "H200 SXM 141GB",
    "v100": "Tesla V100 SXM2 16GB",
    "v10032gb": "Tesla V100 SXM2 32GB",
    "p100": "Tesla P100 PCIe 16GB",
    "mi300x": "Instinct MI300X",
    "rtxpro6000": "RTX PRO 6000 Blackwell Server",
    "gb200": "GB200 (per GPU)",
    "trainium": "Trainium1",
    "tpuv5e": "TPU v5e",
    "v5litepod": "TPU v5e",
    "tpuv5litepod": "TPU v5e",
    "tpuv5p": "TPU v5p",
    "v5p": "TPU v5p",
    "tpuv6e": "TPU v6e",
    "v6e": "TPU v6e",
}
CATALOG_NAMES_BY_MEMORY = {
    ("a100", 80): "A100 SXM4 80GB",
    ("v100", 32): "Tesla V100 SXM2 32GB",
    ("h100", 94): "H100 NVL 94GB",
}


def translate_accelerator_name(vendor_name: str, memory_gib: float | None = None) -> str:
    """Return the catalogue name of an accelerator, or the given name if the catalogue has none."""
    normalized = re.sub(r"[^a-z0-9]", "", vendor_name.lower())
    return CATALOG_NAMES_BY_MEMORY.get((normalized, round(memory_gib or 0))) or CATALOG_NAMES.get(
        normalized, vendor_name
    )


def extract_region_of_location(location: str, cloud: str) -> str:
    """Return the region of a location that may be a zone (Google's zones end in a letter)."""
    return (
        re.sub(r"-[a-z][a-z0-9]*$", "", location) if cloud == "gcp" and location.count("-") > 1 else location
    )


def detect_price_file_cloud(name: str, regions: set[str], where: str) -> str:
    """Return the cloud of a file by its name or folder, else by the spelling of its regions."""
    if name in CLOUDS:
        return name
    matching_clouds = [cloud.name for cloud in CLOUDS.values() if all(map(cloud.is_region_name, regions))]
    if len(matching_clouds) == 1:
        return matching_clouds[0]
    raise InputError("does not state its cloud", where=where, remedy="give --cloud, for example --cloud aws")
