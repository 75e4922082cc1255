"""The longest sequence that the model was trained for."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.sizing.placement_rules.rule import PLACEMENT_RULES, PlacementCase


@PLACEMENT_RULES.register_rule(
    "context-beyond-model",
    reason="positions beyond the trained maximum produce noise unless the model is extended",
    source="max_position_embeddings of the model's config.json",
    is_blocking=False,
)
def check_context_length(case: PlacementCase) -> Iterator[str]:
    model = case.workload.model
    if model.max_context and case.workload.context_tokens > model.max_context:
        yield f"{case.workload.context_tokens} tokens exceed the {model.max_context} that {model.name} was trained for"
