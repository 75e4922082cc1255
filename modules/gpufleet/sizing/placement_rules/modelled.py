"""Accelerators whose speed does not follow from what is published: refused, with what their vendors publish."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from gpufleet.sizing.data_file import load_sizing_rows
from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase
from gpufleet.sizing.speed.device import classify_device
from gpufleet.sizing.speed.efficiency import load_efficiency_factors

MATRIX_KINDS = ("gpu_datacenter", "asic", "tpu")
MAX_SPEEDS = 2  # of one accelerator in a message


@PLACEMENT_RULES.register_rule(
    "not-modelled",
    reason="some accelerators are sold as a service, or nobody has published what their speed follows from",
    source="sizing/data/unmodelled.csv and published_speeds.csv",
)
def check_modelled_accelerator(case: PlacementCase) -> Iterator[str]:
    name = case.hardware.accelerator.name
    if row := _load_reasons().get(name):
        yield f"{name} is not modelled: {row}{_describe_published_speeds(name, case.workload.model.name)}"


@PLACEMENT_RULES.register_rule(
    "unknown-rate",
    reason="the speed of a model follows from memory bandwidth and compute rate: without them there is no estimate",
    source="catalog/data/accelerators.csv",
)
def check_known_rates(case: PlacementCase) -> Iterator[str]:
    accelerator = case.hardware.accelerator
    if accelerator.name in _load_reasons():
        return
    rates: tuple[float | None, ...] = (
        accelerator.bf16_tflops_dense,
        accelerator.fp16_tflops_dense,
        accelerator.fp8_tflops_dense,
    )
    if accelerator.kind not in MATRIX_KINDS:
        rates += (
            accelerator.fp32_tflops,
        )  # which is what a CPU or a card without matrix cores computes with
    if not accelerator.bandwidth_gb_s:
        yield f"the memory bandwidth of {accelerator.name} is not known: its speed cannot be estimated"
    elif case.workload.is_training and not any(rates):
        yield f"the compute rate of {accelerator.name} is not known: its speed cannot be estimated"


@PLACEMENT_RULES.register_rule(
    "unmeasured-class",
    reason="efficiency is fitted to published measurements; a kind without any gets the average of all others",
    source="sizing/data/efficiency.csv",
    is_blocking=False,
)
def check_measured_class(case: PlacementCase) -> Iterator[str]:
    accelerator = case.hardware.accelerator
    if (
        accelerator.name not in _load_reasons()
        and classify_device(accelerator) not in _list_measured_classes()
    ):
        yield (
            f"no measurement of {accelerator.name} or its kind is among those that the factors are fitted to: its "
            "speed follows from its specifications alone, so take the low end of the range"
        )


@cache
def _load_reasons() -> dict[str, str]:
    """Return why an accelerator is not modelled, by its catalogue name."""
    return {row["accelerator"]: row["reason"] for row in load_sizing_rows("unmodelled.csv")}


@cache
def _list_measured_classes() -> frozenset[str]:
    return frozenset(device for _, device, _ in load_efficiency_factors().factors)


def _describe_published_speeds(accelerator: str, model: str) -> str:
    """Return the published speeds of that model, or else those of other models; empty if there is none."""
    rows = [row for row in load_sizing_rows("published_speeds.csv") if row["accelerator"] == accelerator]
    of_model = [row for row in rows if row["model"] == model]
    newest_first = sorted(of_model or rows, key=lambda row: row["as_of"], reverse=True)
    speeds = [
        f"{row.get_number('tokens_per_s'):,.0f} tokens/s {row['unit']} for {row['model']} "
        f"({row['source']}, {row['as_of']})"
        for row in newest_first[:MAX_SPEEDS]
    ]
    return f"; published: {'; '.join(speeds)}" if speeds else ""
