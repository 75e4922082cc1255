"""Inputs of the classic provider, translated for pricers of azure-native that are not on the reader yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    read_input,
)
from gpufleet.cost.pricing.component import (
    Components,
)
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.engine import StateResource


def translated(
    pricer: Pricer, moves: Mapping[str, str], constants: Mapping[str, Any] | None = None
) -> Pricer:
    """Return the pricer for inputs of other names: ``moves`` are dotted paths, from theirs to the pricer's own."""

    def translate(inputs: Any) -> Any:
        translation = {**inputs}
        for path, value in (constants or {}).items():
            _write(translation, path, value)
        for source, target in moves.items():
            value = read_input(inputs, *(int(step) if step.isdigit() else step for step in source.split(".")))
            if value is not None:
                _write(translation, target, value)
        return translation

    return with_inputs(pricer, translate)


def with_inputs(pricer: Pricer, translate: Callable[[Any], Any]) -> Pricer:
    """Return the pricer for inputs that ``translate`` turns into the pricer's own."""

    def price_translated(resource: StateResource, graph: ResourceGraph) -> Components:
        return pricer(replace(resource, inputs=translate(resource.inputs)), graph)

    return price_translated


def _write(inputs: dict[str, Any], path: str, value: Any) -> None:
    """Write a value at a dotted path, without changing what the inputs share with the resource's own."""
    *parents, name = path.split(".")
    for parent in parents:
        child = inputs.get(parent)
        inputs[parent] = {**child} if isinstance(child, dict) else {}
        inputs = inputs[parent]
    inputs[name] = value
