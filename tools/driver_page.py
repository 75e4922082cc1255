"""Write the tables of docs/drivers.md from the data: ``python -m tools.driver_page docs/drivers.md``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpufleet.catalog import load_operating_systems
from gpufleet.drivers.data_file import (
    load_amd_processors,
    load_cuda_releases,
    load_driver_branches,
    load_gpu_architectures,
    load_gpu_cards,
    load_nvidia_kernel_breaks,
    load_rocm_releases,
    load_system_package_tables,
)
from gpufleet.errors import InputError

NO_END = "on"
ROCM_PACKAGES = {"legacy": "rocm", "distribution": "Debian's own"}
END_MARK = "<!-- end -->"


def update_docs_tables(page_text: str) -> str:
    """Return the page with each table between its marks replaced."""
    for name, table in TABLES.items():
        head, mark, remainder = page_text.partition(f"<!-- {name} -->\n")
        _, end, tail = remainder.partition(END_MARK)
        if not mark or not end:
            raise InputError(
                f"the page has no place for the table {name!r}",
                remedy=f"write <!-- {name} --> and {END_MARK}",
            )
        page_text = f"{head}{mark}{table()}{end}{tail}"
    return page_text


def format_gpu_generation_table() -> str:
    """Return NVIDIA's generations with PCI ids, branches, modules and CUDA releases."""
    counts = Counter(card.architecture for card in load_gpu_cards().values())
    body = [
        (
            row.name,
            str(counts[row.name]),
            f"{row.first_branch} - {row.last_branch or NO_END}",
            " or ".join(kind for kind in ("open", "proprietary") if getattr(row, kind)),
            f"{row.first_cuda} - {f'{row.last_cuda}.x' if row.last_cuda else NO_END}",
        )
        for row in load_gpu_architectures().values()
        if row.vendor == "nvidia" and row.first_branch
    ]
    return _format_table(("generation", "PCI ids", "branches", "modules", "CUDA"), body)


def format_driver_branch_table() -> str:
    """Return NVIDIA's branches."""
    body = [
        (
            str(row.number),
            row.kind.replace("_", " "),
            row.end_of_life or "-",
            f"{row.max_cuda}.x",
            row.default_module,
        )
        for row in load_driver_branches().values()
    ]
    return _format_table(("branch", "kind", "ends", "CUDA", "modules by default"), body)


def format_kernel_break_table() -> str:
    """Return the kernels on which NVIDIA's modules do not build."""
    body = [
        (
            f"{row.branch} ({row.origin.capitalize()})" if row.origin else str(row.branch),
            row.breaks_from,
            row.fixed_in or "none",
            row.certainty,
            ", ".join(row.sources),
        )
        for row in load_nvidia_kernel_breaks()
    ]
    return _format_table(("branch", "from kernel", "first release that builds", "certainty", "sources"), body)


def format_amd_processor_table() -> str:
    """Return what the kernel's own amdgpu needs for AMD's processors."""
    counts: dict[str, list[str]] = {}
    for card in load_gpu_cards().values():
        counts.setdefault(card.gfx, []).append(card.architecture)
    body = [
        (
            row.gfx,
            counts[row.gfx][0],
            row.kernel_with,
            f"`{row.firmware}_*`",
            row.mesa_with or "-",
        )
        for row in load_amd_processors().values()
    ]
    return _format_table(("processor", "generation", "kernel", "firmware", "Mesa"), body)


def format_cuda_release_table() -> str:
    """Return for each CUDA major the lowest branch and the releases with their drivers."""
    releases: dict[str, list[str]] = {}
    min_driver: dict[str, int] = {}
    for row in load_cuda_releases().values():
        major = row.version.split(".")[0]
        releases.setdefault(major, []).append(f"{row.version} ({row.toolkit_driver})")
        min_driver[major] = row.min_driver
    body = [
        (f"{major}.x", f"{min_driver[major]}", ", ".join(releases_of_major))
        for major, releases_of_major in releases.items()
    ]
    return _format_table(("CUDA", "least branch", "releases, with the driver each was released with"), body)


def format_rocm_release_table() -> str:
    """Return the ROCm releases."""
    body = [
        (
            row.release,
            ROCM_PACKAGES.get(row.stream, "amdrocm-*"),
            ", ".join(row.drivers) or "in the kernel",
            " ".join(row.gfx),
            ", ".join(row.systems),
        )
        for row in load_rocm_releases().values()
    ]
    return _format_table(("ROCm", "packages", "amdgpu-dkms", "processors", "systems"), body)


def format_system_support_table() -> str:
    """Return the systems and what their archives and the vendors' repositories offer."""
    body = []
    for name, row in load_system_package_tables().items():
        nvidia = row.get("nvidia", {})
        distribution = nvidia.get("distribution", {})
        signed = {"signed": "signed, prebuilt", "dkms": "DKMS"}.get(distribution.get("module", ""), "-")
        architectures = nvidia.get("vendor", {}).get("arch", ())
        body.append(
            (
                load_operating_systems()[name].title,
                ", ".join(distribution.get("branches", ())) or "-",
                signed,
                f"all, DKMS; {' and '.join(architectures)}" if architectures else "-",
                "yes" if "driver" in row.get("amd", {}) else "in the kernel" if "amd" in row else "-",
            )
        )
    return _format_table(
        ("system", "its own branches", "its modules", "NVIDIA's repository", "amdgpu-dkms"), body
    )


def _format_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


TABLES = {
    "generations": format_gpu_generation_table,
    "branches": format_driver_branch_table,
    "kernels": format_kernel_break_table,
    "processors": format_amd_processor_table,
    "cuda": format_cuda_release_table,
    "rocm": format_rocm_release_table,
    "systems": format_system_support_table,
}

if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(update_docs_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
