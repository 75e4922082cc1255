"""Warnings about the model itself: what an answer approximates or leaves out."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.catalog import ModelArchitecture
from gpufleet.sizing.plan_warning import PlanWarning


def list_model_warnings(model: ModelArchitecture) -> Iterator[PlanWarning]:
    """Yield the note of the model, and what its vision tower counts for."""
    if model.note:
        yield PlanWarning("model-note", f"{model.name}: {model.note}", model.source)
    if model.vision_parameters:
        text = (
            f"{model.name}: {model.vision_parameters / 1e9:.2g} B parameters of its vision tower count as weights in "
            f"16 bits; the time to encode images does not count, and their tokens are part of --context"
        )
        yield PlanWarning("vision-tower", text, model.source)
