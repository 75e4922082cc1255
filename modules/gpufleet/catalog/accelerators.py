"""Accelerators: the rows of ``accelerators.csv`` as values, in every memory size that they are sold with."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import cast

from gpufleet.catalog.model import Accelerator, Kind
from gpufleet.catalog.sources import row_sources
from gpufleet.catalog.table import Row, rows


@cache
def accelerators() -> dict[str, Accelerator]:
    """Return every accelerator by its catalogue name, each with the largest memory that it is sold with."""
    return {row["name"]: _accelerator(row) for row in rows("accelerators.csv")}


def sized(part: Accelerator, gib: float) -> Accelerator | None:
    """Return the same part with another memory that it is sold with, None where there is no such version.

    What software can use of it keeps the measured share, or takes the documented one for that size.
    """
    if gib == part.memory_gib:
        return part
    if gib not in part.memory_options:
        return None
    row = next(row for row in rows("accelerators.csv") if row["name"] == part.name)
    measured = (part.usable_gib or part.memory_gib) / part.memory_gib if row["usable_gib"] else None
    share = measured or usable_share(part.vendor, part.kind, gib)
    return replace(part, name=f"{part.name} {gib:g}GB", memory_gib=gib, usable_gib=round(gib * share, 2))


def usable_share(vendor: str, kind: str, gib: float) -> float:
    """Return the documented share of a memory that software can use, where nobody measured the part itself."""
    for row in _shares():
        if (
            row["vendor"] in ("", vendor)
            and row["kind"] in ("", kind)
            and gib <= float(row["up_to_gib"] or "inf")
        ):
            return float(row["share"])
    return 1.0


@cache
def _shares() -> list[Row]:
    return rows("usable_shares.csv")


def _number(text: str) -> float | None:
    return float(text) if text else None


def _usable(row: Row) -> float:
    memory = float(row["memory_gib"])
    measured = _number(row["usable_gib"])
    return measured or round(memory * usable_share(row["vendor"], row["kind"], memory), 2)


def _accelerator(row: Row) -> Accelerator:
    source, as_of = row_sources(row["name"])
    return Accelerator(
        name=row["name"],
        vendor=row["vendor"],
        memory_gib=float(row["memory_gib"]),
        bandwidth_gb_s=_number(row["bandwidth_gb_s"]),
        fp32_tflops=_number(row["fp32_tflops"]),
        bf16_tflops_dense=_number(row["bf16_tflops_dense"]),
        fp8_tflops_dense=_number(row["fp8_tflops_dense"]),
        int8_tops_dense=_number(row["int8_tops_dense"]),
        tdp_w=_number(row["tdp_w"]),
        architecture=row["architecture"],
        form_factor=row["form_factor"],
        source=source,
        as_of=as_of,
        notes=row["notes"],
        kind=cast("Kind", row["kind"]),
        memory_options=tuple(float(size) for size in row["memory_options"].split()),
        usable_gib=_usable(row),
        fp16_tflops_dense=_number(row["fp16_tflops_dense"]),
        fp4_tflops_dense=_number(row["fp4_tflops_dense"]),
        link=row["link"],
        link_gb_s=_number(row["link_gb_s"]),
        pcie_gen=int(row["pcie_gen"]) if row["pcie_gen"] else None,
        peer_access=row["peer_access"] == "yes",
        unified=row["unified"] == "yes",
        stacks=tuple(row["stacks"].split()),
        launch_year=int(row["launch_year"]) if row["launch_year"] else None,
        aliases=tuple(part for part in row["aliases"].split("; ") if part),
        bin_of=row["bin_of"],
    )
