"""Sources call one accelerator by many names; ours are those of accelerators.csv."""

from __future__ import annotations

import re

from gpufleet.errors import InputError

# Of the three clouds: where a name means two parts, what machines.csv says about the machine wins over this.
OURS = {
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
BY_MEMORY = {
    ("a100", 80): "A100 SXM4 80GB",
    ("v100", 32): "Tesla V100 SXM2 32GB",
    ("h100", 94): "H100 NVL 94GB",
}
REGIONS = (
    ("aws", re.compile(r"(us|eu|ap|af|ca|cn|il|me|mx|sa)(-gov|-iso[bef]?)?-[a-z]+-\d$")),
    ("gcp", re.compile(r"[a-z]+-[a-z]+\d+$")),
    ("azure", re.compile(r"[a-z]+\d?$")),
)
CLOUDS = tuple(cloud for cloud, _ in REGIONS)


def accelerator(raw: str, memory_gib: float | None = None) -> str:
    """Return our name for an accelerator, theirs where we have none."""
    plain = re.sub(r"[^a-z0-9]", "", raw.lower())
    return BY_MEMORY.get((plain, round(memory_gib or 0))) or OURS.get(plain, raw)


def region(location: str, cloud: str) -> str:
    """Return the region of a location that may be a zone (Google's end in a letter)."""
    return (
        re.sub(r"-[a-z][a-z0-9]*$", "", location) if cloud == "gcp" and location.count("-") > 1 else location
    )


def cloud_of(name: str, regions: set[str], where: str) -> str:
    """Tell whose prices a file holds: by its name or folder, else by how its regions are spelt."""
    if name in CLOUDS:
        return name
    spelt = {cloud for cloud, form in REGIONS if all(form.match(region) for region in regions)}
    if len(spelt) == 1:
        return spelt.pop()
    raise InputError(
        "does not say which cloud it prices", where=where, remedy="give --cloud, for example --cloud aws"
    )
