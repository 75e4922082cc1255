"""Accelerators from ``accelerators.csv``, with every memory size that they are sold with."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import get_args

from gpufleet.catalog.data_file import Row, load_catalog_rows
from gpufleet.catalog.entry import Accelerator, Kind
from gpufleet.catalog.source import summarize_accelerator_sources


@cache
def load_accelerators() -> dict[str, Accelerator]:
    """Return every accelerator by catalogue name, each with the largest memory that it is sold with."""
    return {row["name"]: _build_accelerator(row) for row in load_catalog_rows("accelerators.csv")}


def with_memory_size(part: Accelerator, gib: float) -> Accelerator | None:
    """Return the part with another memory size, None if it is not sold with that size.

    ``usable_gib`` follows from the measured share, or else from the documented share for that size.
    """
    if gib == part.memory_gib:
        return part
    if gib not in part.memory_options:
        return None
    row = next(row for row in load_catalog_rows("accelerators.csv") if row["name"] == part.name)
    measured = (part.usable_gib or part.memory_gib) / part.memory_gib if row["usable_gib"] else None
    share = measured or find_usable_memory_share(part.vendor, part.kind, gib)
    return replace(part, name=f"{part.name} {gib:g}GB", memory_gib=gib, usable_gib=round(gib * share, 2))


def find_usable_memory_share(vendor: str, kind: str, gib: float) -> float:
    """Return the documented share of memory that software can use, for parts without a measurement."""
    for row in _load_usable_shares():
        if (
            row["vendor"] in ("", vendor)
            and row["kind"] in ("", kind)
            and gib <= row.get_number("up_to_gib", default=math.inf)
        ):
            return row.get_number("share")
    return 1.0


@cache
def _load_usable_shares() -> list[Row]:
    return load_catalog_rows("usable_shares.csv")


def _usable_gib(row: Row) -> float:
    memory = row.get_number("memory_gib")
    measured = row.get_optional_number("usable_gib")
    return measured or round(memory * find_usable_memory_share(row["vendor"], row["kind"], memory), 2)


def _build_accelerator(row: Row) -> Accelerator:
    source, as_of = summarize_accelerator_sources(row["name"])
    return Accelerator(
        name=row["name"],
        vendor=row["vendor"],
        memory_gib=row.get_number("memory_gib"),
        bandwidth_gb_s=row.get_optional_number("bandwidth_gb_s"),
        fp32_tflops=row.get_optional_number("fp32_tflops"),
        bf16_tflops_dense=row.get_optional_number("bf16_tflops_dense"),
        fp8_tflops_dense=row.get_optional_number("fp8_tflops_dense"),
        int8_tops_dense=row.get_optional_number("int8_tops_dense"),
        tdp_w=row.get_optional_number("tdp_w"),
        architecture=row["architecture"],
        form_factor=row["form_factor"],
        source=source,
        as_of=as_of,
        notes=row["notes"],
        kind=row.get_choice("kind", get_args(Kind)),
        memory_options=tuple(float(size) for size in row.get_words("memory_options")),
        usable_gib=_usable_gib(row),
        fp16_tflops_dense=row.get_optional_number("fp16_tflops_dense"),
        fp4_tflops_dense=row.get_optional_number("fp4_tflops_dense"),
        link=row["link"],
        link_gb_s=row.get_optional_number("link_gb_s"),
        pcie_gen=row.get_optional_integer("pcie_gen"),
        peer_access=row.get_boolean("peer_access"),
        unified=row.get_boolean("unified"),
        stacks=row.get_words("stacks"),
        launch_year=row.get_optional_integer("launch_year"),
        aliases=tuple(part for part in row["aliases"].split("; ") if part),
        bin_of=row["bin_of"],
    )
