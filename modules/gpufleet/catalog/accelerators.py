"""Accelerators: the rows of ``accelerators.csv`` as values, and how people's names for them are understood."""

from __future__ import annotations

from functools import cache
from typing import cast

from gpufleet.catalog.model import Accelerator, Kind
from gpufleet.catalog.table import Row, rows


@cache
def accelerators() -> dict[str, Accelerator]:
    """Return every accelerator by its catalogue name."""
    return {row["name"]: _accelerator(row) for row in rows("accelerators.csv")}


def _number(text: str) -> float | None:
    return float(text) if text else None


def _accelerator(row: Row) -> Accelerator:
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
        source=row["source"],
        as_of=row["as_of"],
        notes=row["notes"],
        kind=cast("Kind", row["kind"]),
        memory_options=tuple(float(size) for size in row["memory_options"].split()),
        usable_gib=_number(row["usable_gib"]),
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
    )
