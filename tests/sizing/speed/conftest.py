"""A fixture that predicts the speed of a workload by catalogue names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet import catalog
from gpufleet.sizing import ParallelLayout, Workload
from gpufleet.sizing.node_hardware import build_accelerator_hardware, with_link_for_device_count
from gpufleet.sizing.speed import estimate_speed


@pytest.fixture
def predict():
    """Return the speed of a model on devices of a part; ``split`` tensor or layer where there are several."""

    def answer(model="Llama-3.1-8B", part="A100 SXM4 80GB", devices=1, split="tensor", nodes=1, **changes):
        named = catalog.get_accelerator(part) if isinstance(part, str) else part
        hardware = with_link_for_device_count(build_accelerator_hardware(named), devices // nodes)
        workload = replace(Workload(catalog.get_model(model)), **changes)
        sizes = (
            {"data": devices}
            if workload.is_training
            else {"tensor" if split == "tensor" else "pipeline": devices}
        )
        kind = split if devices > 1 and not workload.is_training else "none"
        return estimate_speed(
            workload, ParallelLayout(nodes=nodes, devices=devices, split=kind, **sizes), hardware
        )

    return answer
