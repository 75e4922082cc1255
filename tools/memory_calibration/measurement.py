"""Published memory measurements as workloads that the memory model can predict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from gpufleet import catalog
from gpufleet.boundary import CsvRow, read_packaged_rows
from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.memory.result import GIB
from gpufleet.sizing.workload import Task, TrainingSettings, Workload

UNITS = {"GiB": 1.0, "GB": 1e9 / GIB, "MB": 1e6 / GIB}
TEXT_FIELDS = ("optimizer", "sharding", "recompute", "offload", "adapter", "lora_targets")
INTEGER_FIELDS = ("lora_rank", "accumulation", "context_parallel")
BOOLEAN_FIELDS = (
    "lora_dropout",
    "master_copy",
    "compiled",
    "fused_loss",
    "sync_each",
    "untied",
    "step_in_backward",
    "foreach_optimizer",
)
DEVICES_OF_A_NODE = 8
# The rows are of 2024 and before: transformers stored each expert as a linear layer, adapters had 16 bits.
EARLIER_LIBRARIES: dict[str, Any] = {"experts": "linear", "adapter_bytes": 2.0}
DEFAULT_ACCELERATOR = "A100 SXM4 80GB"  # files have a size on any device


@dataclass(frozen=True)
class MemoryMeasurement:
    """One published figure. ``group`` is the source, which is left out of a fit as one group."""

    id: str
    group: str
    metric: str  # peak_mem_per_device, weight_file_gib or fits
    gib: float
    fits: bool | None
    workload: Workload
    layout: ParallelLayout
    hardware: Hardware
    source: str
    notes: str

    @property
    def device_class(self) -> str:
        """Return the accelerator kind for reports, "file" for file sizes."""
        return self.hardware.accelerator.kind if self.metric != "weight_file_gib" else "file"


@cache
def load_memory_measurements() -> tuple[MemoryMeasurement, ...]:
    """Return every row of the measured set."""
    return tuple(
        _build_measurement(row) for row in read_packaged_rows("tools.memory_calibration", "measured.csv")
    )


def _build_measurement(row: CsvRow) -> MemoryMeasurement:
    fits = row["metric"] == "fits"
    accelerator = catalog.get_accelerator(row["accelerator"] or DEFAULT_ACCELERATOR)
    if row["memory_gib"]:  # a card sold in another size than the catalogue's
        accelerator = replace(accelerator, memory_gib=row.get_number("memory_gib"), usable_gib=None)
    return MemoryMeasurement(
        id=row["id"],
        group=row["group"],
        metric=row["metric"],
        gib=0.0 if fits else row.get_number("value") * UNITS[row["unit"]],
        fits=row["value"] == "1" if fits else None,
        workload=_workload(row),
        layout=_layout(row),
        hardware=Hardware(name=accelerator.name, accelerator=accelerator, devices_per_node=DEVICES_OF_A_NODE),
        source=row["source"],
        notes=row["notes"],
    )


def _workload(row: CsvRow) -> Workload:
    task = "inference" if row["task"] == "storage" else row["task"]
    return Workload(
        model=catalog.get_model(row["model"]),
        task=cast("Task", task),
        precision=row["precision"],
        input_tokens=row.get_integer("input_tokens", default=1),
        output_tokens=row.get_integer("output_tokens", default=0),
        batch=row.get_integer("batch", default=1),
        engine=row["engine"] or None,
        training=_training(row),
    )


def _training(row: CsvRow) -> TrainingSettings:
    knobs: dict[str, Any] = {name: row[name] for name in TEXT_FIELDS if row[name]}
    knobs |= {name: row.get_integer(name) for name in INTEGER_FIELDS if row[name]}
    knobs |= {name: row.get_boolean(name) for name in BOOLEAN_FIELDS if row[name]}
    if row["logits_bytes"]:
        knobs["logits_bytes"] = row.get_number("logits_bytes")
    return TrainingSettings(**EARLIER_LIBRARIES, **knobs)


def _layout(row: CsvRow) -> ParallelLayout:
    devices, tensor, pipeline = (
        row.get_integer("devices"),
        row.get_integer("tensor", default=1),
        row.get_integer("pipeline", default=1),
    )
    return ParallelLayout(
        nodes=row.get_integer("nodes"),
        devices=devices,
        tensor=tensor,
        pipeline=pipeline,
        data=devices // (tensor * pipeline),
    )
