"""The tables of docs/drivers.md, written from the data: ``python -m gpufleet.drivers.page docs/drivers.md``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpufleet.drivers.tables import architectures, branches, cards, cuda_releases, rocm_releases, systems
from gpufleet.errors import InputError

FOREVER = "on"
END = "<!-- end -->"


def written(text: str) -> str:
    """Return the page with every table between its marks written anew."""
    for name, table in TABLES.items():
        head, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(END)
        if not mark or not end:
            raise InputError(f"no place for the table {name!r}", remedy=f"write <!-- {name} --> and {END}")
        text = f"{head}{mark}{table()}{end}{tail}"
    return text


def generations() -> str:
    """Return NVIDIA's generations: how many PCI ids, which branches, which modules, which CUDA."""
    counts = Counter(card.architecture for card in cards().values())
    body = [
        (
            row.name,
            str(counts[row.name]),
            f"{row.first_branch} - {row.last_branch or FOREVER}",
            " or ".join(kind for kind in ("open", "proprietary") if getattr(row, kind)),
            f"{row.first_cuda} - {f'{row.last_cuda}.x' if row.last_cuda else FOREVER}",
        )
        for row in architectures().values()
        if row.vendor == "nvidia" and row.first_branch
    ]
    return _table(("generation", "PCI ids", "branches", "modules", "CUDA"), body)


def branch_table() -> str:
    """Return NVIDIA's branches."""
    body = [
        (
            str(row.number),
            row.kind.replace("_", " "),
            row.end_of_life or "-",
            f"{row.max_cuda}.x",
            row.default_module,
        )
        for row in branches().values()
    ]
    return _table(("branch", "kind", "ends", "CUDA", "modules by default"), body)


def cuda_table() -> str:
    """Return, for each major of CUDA, the branch that runs it and the newest release's own driver."""
    releases: dict[str, list[str]] = {}
    least: dict[str, int] = {}
    for row in cuda_releases().values():
        major = row.version.split(".")[0]
        releases.setdefault(major, []).append(f"{row.version} ({row.toolkit_driver})")
        least[major] = row.least_driver
    body = [(f"{major}.x", f"{least[major]}", ", ".join(each)) for major, each in releases.items()]
    return _table(("CUDA", "least branch", "releases, with the driver each was released with"), body)


def rocm_table() -> str:
    """Return the ROCm releases."""
    body = [
        (
            row.release,
            "amdrocm-*" if row.stream == "core" else "rocm",
            " ".join(row.gfx),
            ", ".join(row.systems),
        )
        for row in rocm_releases().values()
    ]
    return _table(("ROCm", "packages", "processors", "systems"), body)


def system_table() -> str:
    """Return the systems and what their own archives and the makers' repositories have."""
    body = []
    for row in systems().values():
        nvidia = row.get("nvidia", {})
        own = nvidia.get("distribution", {})
        signed = {"signed": "signed, prebuilt", "dkms": "DKMS"}.get(own.get("module", ""), "-")
        body.append(
            (
                row["title"],
                ", ".join(own.get("branches", ())) or "-",
                signed,
                "all, DKMS" if "vendor" in nvidia else "-",
                "yes" if "driver" in row.get("amd", {}) else "in the kernel",
            )
        )
    return _table(("system", "its own branches", "its modules", "NVIDIA's repository", "amdgpu-dkms"), body)


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


TABLES = {
    "generations": generations,
    "branches": branch_table,
    "cuda": cuda_table,
    "rocm": rocm_table,
    "systems": system_table,
}

if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
