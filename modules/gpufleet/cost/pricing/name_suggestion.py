"""Suggest the machine or region that the name of a component without a price may mean."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet import catalog
from gpufleet.catalog.prices import name_suggestion
from gpufleet.catalog.prices.name_check import KnownNames
from gpufleet.cost.pricing.component import CostComponent

MAX_NAMES = 10  # compared with all known names, which takes some milliseconds each
Name = tuple[str, str, str]  # cloud, region, machine; the machine of a part is ""


def find_name_suggestions(components: Iterable[CostComponent]) -> dict[Name, str]:
    """Return a sentence for each unknown name among components without a price."""
    unknown = sorted({get_priced_name(each) for each in components if not _is_known(*get_priced_name(each))})
    if not unknown:
        return {}
    names = name_suggestion.load_priced_names()
    return {name: text for name in unknown[:MAX_NAMES] if (text := _describe_similar_names(name, names))}


def get_priced_name(component: CostComponent) -> Name:
    """Return the cloud, region and machine whose price was not found."""
    return component.cloud, component.region, "" if component.is_part else component.priced_items[0]


def _is_known(cloud: str, region: str, machine: str) -> bool:
    return name_suggestion.is_priced_region(cloud, region) and (
        not machine or catalog.find_machine(machine.partition(":")[0], cloud) is not None
    )


def _describe_similar_names(name: Name, names: KnownNames) -> str:
    cloud, region, machine = name
    machine_question = name_suggestion.suggest_machine(cloud, machine, names) if machine else ""
    region_question = name_suggestion.suggest_region(cloud, region, names)
    sentences = []
    if machine_question:
        sentences.append(f"unknown machine, {machine_question}")
    if region_question:
        sentences.append(f"no price is known in this region, {region_question}")
    return "; ".join(sentences)
