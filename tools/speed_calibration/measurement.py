"""Published measurements as workloads that the speed model can predict."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import cast

from gpufleet import catalog
from gpufleet.boundary import read_packaged_rows
from gpufleet.catalog import Accelerator, ModelArchitecture
from gpufleet.errors import InputError
from gpufleet.sizing.data_file import Row
from gpufleet.sizing.hardware import Hardware, ParallelLayout, Split
from gpufleet.sizing.node_hardware import build_accelerator_hardware, with_link_for_device_count
from gpufleet.sizing.speed import device, prefill
from gpufleet.sizing.speed.efficiency import EfficiencyFactors
from gpufleet.sizing.speed.engine_generation import find_engine_generation
from gpufleet.sizing.speed.prediction import (
    build_replica,
    estimate_generation_rates,
    find_replica_regime,
    find_training_regime,
    training_tokens_per_s,
)
from gpufleet.sizing.speed.replica import Replica
from gpufleet.sizing.workload import Recompute, Task, TrainingSettings, Workload

MANY_STREAMS = 2048  # streams for a batch of "max"
MOST_REQUESTS = (
    3000  # that NVIDIA's tables of the greatest load send at once (TensorRT-LLM perf-overview.md, v1.0)
)
METRIC_KINDS = {
    "decode_tok_s": "decode", "output_tok_s_total": "throughput", "e2e_latency_s": "throughput",
    "prefill_tok_s": "prefill", "ttft_ms": "prefill",
    "train_tok_s_per_device": "training", "train_tok_s_total": "training", "seq_s_total": "training",
    "mfu_pct": "training", "tflops_per_device": "training",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class SpeedMeasurement:
    """One published figure with its workload, layout and hardware."""

    row: Row
    workload: Workload
    layout: ParallelLayout
    hardware: Hardware

    @property
    def measurement_id(self) -> str:
        """Return the id of the row in measured.csv."""
        return self.row["id"]

    @property
    def publication(self) -> str:
        """Return the publication, which is left out as one group in cross-validation."""
        return self.row["group"]

    @property
    def metric_kind(self) -> str:
        """Return decode, throughput, prefill or training."""
        return METRIC_KINDS[self.row["metric"]]

    @cached_property
    def device_class(self) -> str:
        """Return the class of the devices."""
        return device.classify_device(self.hardware.accelerator)

    @cached_property
    def calibrated_engine(self) -> str:
        """Return the calibrated engine."""
        accelerator = self.hardware.accelerator
        return device.find_calibrated_engine(
            self.workload.engine, accelerator, training=self.workload.is_training
        )

    @cached_property
    def generation(self) -> str:
        """Return the generation of the engine, empty for an engine without any."""
        return find_engine_generation(self.calibrated_engine, self.workload.engine_version)

    @cached_property
    def regime(self) -> tuple[str, str]:
        """Return the kind of speed and the regime whose interval applies: that of prompts is the device class."""
        if self.metric_kind == "prefill":
            return "prefill", self.device_class
        replica = build_replica(self.workload, self.layout, self.hardware)
        return (
            ("training", find_training_regime(replica))
            if replica.workload.is_training
            else find_replica_regime(replica)
        )

    @cached_property
    def published_tokens_per_s(self) -> float:
        """Return the published figure in tokens per second of all devices."""
        return _SPEEDS[self.row["metric"]](self, self.row.get_number("value"))

    @property
    def is_predictable(self) -> bool:
        """True if the catalogue has the rates that a prediction needs."""
        accelerator = self.hardware.accelerator
        computes = (
            device.find_peak_flops(accelerator, self.workload.precision, self.calibrated_engine) is not None
        )
        return (
            computes
            if self.workload.is_training
            else accelerator.bandwidth_gb_s is not None and (computes or self.metric_kind == "decode")
        )

    @property
    def replica_count(self) -> int:
        """Return the replicas of a serving row: data parallelism without expert parallelism copies the model."""
        return self.layout.data if self.layout.expert == 1 else 1

    def predict_tokens_per_s(self, efficiency: EfficiencyFactors | None = None) -> float | None:
        """Return the predicted tokens per second, None if the catalogue has no rates for it."""
        replica = build_replica(self.workload, self.layout, self.hardware, efficiency)
        if self.workload.is_training:
            return training_tokens_per_s(replica)
        if self.metric_kind == "prefill":
            return _prompt_tokens_per_s(replica)
        answer = estimate_generation_rates(replica)
        if answer is None:
            return None
        return answer.per_stream if self.metric_kind == "decode" else answer.tokens_per_s * self.replica_count

    def log_prediction_error(self, efficiency: EfficiencyFactors | None = None) -> float | None:
        """Return the logarithm of predicted over published."""
        predicted = self.predict_tokens_per_s(efficiency)
        return log(predicted / self.published_tokens_per_s) if predicted else None


def load_speed_measurements() -> list[SpeedMeasurement]:
    """Return the usable published speeds whose accelerator and model are in the catalogue."""
    measurements = []
    for row in read_packaged_rows("tools.speed_calibration", "measured.csv"):
        if row["use"] == "yes" and row["metric"] in METRIC_KINDS:
            measurement = _build_measurement(row)
            measurements += [measurement] if measurement else []
    return measurements


def _build_measurement(row: Row) -> SpeedMeasurement | None:
    try:
        accelerator, model = catalog.get_accelerator(row["accelerator"]), catalog.get_model(row["model"])
    except InputError:
        return None
    return SpeedMeasurement(row, _workload(row, model), _layout(row), _hardware(row, accelerator))


def _workload(row: Row, model: ModelArchitecture) -> Workload:
    return Workload(
        model=model,
        task=cast("Task", row["task"]),
        precision=row["precision"],
        input_tokens=row.get_integer("input_tokens", default=0),
        output_tokens=row.get_integer("output_tokens", default=0),
        batch=_count_streams(row),
        kv_precision=row["kv_precision"] or "f16",
        engine=row["engine"],
        engine_version=_engine_version(row),
        disaggregated=row["disaggregation"] == "decode",
        training=TrainingSettings(
            recompute=cast("Recompute", row["recompute"] or "full"),
            offload="all" if "offload" in row["notes"] else "none",
            accumulation=row.get_integer("accumulation", default=1),
        ),
    )


def _count_streams(row: Row) -> int:
    """Return the streams of one replica; many for each group of attention data parallelism if the row says max."""
    batch = row["batch"] or "1"
    if batch != "max":
        return int(batch)
    layout = _layout(row)
    return min(MANY_STREAMS * layout.data, MOST_REQUESTS) if layout.expert > 1 else MANY_STREAMS


def _engine_version(row: Row) -> str:
    """Return the engine's version, or the day of the measurement."""
    return row["engine_version"].split(".post")[0] or row["as_of"]


def _layout(row: Row) -> ParallelLayout:
    """Return the layout that the row's ``parallelism`` names, as `tp8 pp2`, `ep8 dp8` or `fsdp64`.

    Expert-parallel ranks are those of ``tp`` and ``dp``: they are not devices of their own. A training without ``dp``
    has the devices that the tensor and pipeline sizes leave; those that share a context (``cp``) count as such.
    """
    sizes = {name: int(size) for name, size in re.findall(r"(tp|pp|dp|fsdp|ep)(\d+)", row["parallelism"])}
    all_devices, nodes = row.get_integer("devices", default=1), row.get_integer("nodes", default=1)
    tensor, pipeline = sizes.get("tp", 1), sizes.get("pp", 1)
    data = sizes.get("fsdp", sizes.get("dp", 1))
    if row["task"] != "inference" and not sizes.keys() & {"fsdp", "dp"}:
        data = all_devices // (tensor * pipeline)
    split = cast("Split", row["split"] or "none")
    return ParallelLayout(
        nodes,
        max(1, all_devices // max(1, nodes)),
        tensor,
        pipeline,
        data,
        expert=sizes.get("ep", 1),
        split=split,
    )


def _hardware(row: Row, accelerator: Accelerator) -> Hardware:
    accelerator = _scale_rates(accelerator, row.get_number("share", default=1))
    devices, nodes = row.get_integer("devices", default=1), row.get_integer("nodes", default=1)
    hardware = with_link_for_device_count(
        build_accelerator_hardware(accelerator), max(1, devices // max(1, nodes))
    )
    return replace(hardware, devices_per_node=1) if nodes == devices else hardware


def _scale_rates(accelerator: Accelerator, share: float) -> Accelerator:
    """Return the accelerator with scaled rates: one die of two, or a power limit."""
    rates = (
        "bandwidth_gb_s",
        "bf16_tflops_dense",
        "fp16_tflops_dense",
        "fp8_tflops_dense",
        "int8_tops_dense",
    )
    values = {name: getattr(accelerator, name) for name in rates}
    return replace(accelerator, **{name: value * share for name, value in values.items() if value})


def _prompt_tokens_per_s(replica: Replica) -> float | None:
    work = replica.workload
    seconds = prefill.estimate_prefill_seconds(replica, work.batch, work.input_tokens)
    return work.batch * work.input_tokens / seconds if seconds else None


def _tokens_from_flops(measurement: SpeedMeasurement, operations: float) -> float:
    """Return tokens per second of all devices from FLOP/s: six per weight, and full (not causal) attention.

    Source: PaLM (arXiv 2204.02311), appendix B, model FLOPs utilization.
    """
    model, length = measurement.workload.model, measurement.workload.context_tokens
    per_token = 6.0 * model.parameters + 12.0 * model.layers * model.hidden * length
    return operations / per_token * count_training_devices(measurement)


def count_training_devices(measurement: SpeedMeasurement) -> int:
    """Return the devices of the run."""
    return measurement.row.get_integer("devices")


def _peak_flops(measurement: SpeedMeasurement) -> float:
    return (
        device.find_peak_flops(
            measurement.hardware.accelerator, measurement.workload.precision, measurement.calibrated_engine
        )
        or 0.0
    )


def _unchanged(_: SpeedMeasurement, value: float) -> float:
    return value


_SPEEDS: dict[str, Callable[[SpeedMeasurement, float], float]] = {
    "decode_tok_s": _unchanged,
    "prefill_tok_s": _unchanged,
    "output_tok_s_total": _unchanged,
    "e2e_latency_s": lambda measurement, value: (
        measurement.workload.batch * measurement.workload.output_tokens / value
    ),
    "ttft_ms": lambda measurement, value: measurement.workload.input_tokens / value * 1000,
    "train_tok_s_total": _unchanged,
    "train_tok_s_per_device": lambda measurement, value: value * count_training_devices(measurement),
    "seq_s_total": lambda measurement, value: value * measurement.workload.context_tokens,
    "mfu_pct": lambda measurement, value: _tokens_from_flops(
        measurement, value / 100 * _peak_flops(measurement)
    ),
    "tflops_per_device": lambda measurement, value: _tokens_from_flops(measurement, value * 1e12),
}
