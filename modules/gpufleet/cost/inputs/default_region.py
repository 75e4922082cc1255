"""Regions of resources that name none themselves and whose provider is not in the document.

A preview without ``--show-sames`` omits providers that do not change. The first of these places that has a region
counts: the provider's own name, the stack's file, ``--region``, the variables of the providers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import make_printable, read_text
from gpufleet.cost.inputs.program.allowlist import find_declared_stack_file
from gpufleet.engine.project_file import PROJECT_FILE, parse_project_setting
from gpufleet.errors import InputError

OPTION = "--region"
EXAMPLE = "for example --region eu-west-1 or --region gcp=europe-west4"
# The stack's settings and the environment's variables of each cloud, in the order of their providers.
SETTINGS = {
    "aws": ("aws:region",),
    "gcp": ("gcp:region", "gcp:zone"),
    "azure": ("azure-native:location", "azure:location"),
}
VARIABLES = {
    "aws": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "gcp": (
        "GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION",
        "GOOGLE_ZONE", "GCLOUD_ZONE", "CLOUDSDK_COMPUTE_ZONE",
    ),
    "azure": ("ARM_LOCATION",),
}  # fmt: skip
_SIDE = r"(?:north|south)?(?:east|west|central|north|south)"
_AWS = rf"(?:us|eu|ap|sa|ca|me|af|il|mx|cn)(?:-gov)?-{_SIDE}-\d"
_GCP = rf"(?:us|europe|asia|australia|northamerica|southamerica|me|africa)-{_SIDE}\d+"
PATTERNS = {"aws": re.compile(_AWS), "gcp": re.compile(_GCP)}
_LOCATION = re.compile(r"[A-Za-z][A-Za-z0-9 ]{2,40}")


@dataclass(frozen=True)
class DefaultRegion:
    """A region or a zone in it, and the place that names it."""

    region: str
    source: str
    is_from_environment: bool = False  # from ``--region`` or a variable, not from the program or its stack


DefaultRegions = Mapping[str, tuple[DefaultRegion, ...]]  # by cloud, the first of the places first
NO_REGIONS: DefaultRegions = {}


def parse_region_options(values: Iterable[str]) -> dict[str, tuple[DefaultRegion, ...]]:
    """Return the region of each cloud from ``REGION`` or ``CLOUD=REGION``."""
    regions: dict[str, tuple[DefaultRegion, ...]] = {}
    for value in values:
        name, separator, region = value.rpartition("=")
        cloud = name if separator else _guess_cloud(region)
        if cloud not in SETTINGS or not region.strip():
            remedy = _suggest_region(region) or EXAMPLE
            raise InputError(f"{make_printable(value)!r} is not a region", where=OPTION, remedy=remedy)
        regions[cloud] = (DefaultRegion(region, OPTION, is_from_environment=True),)
    return regions


def region_variables(options: DefaultRegions) -> dict[str, str]:
    """Return the variables by which providers of an evaluated program get the regions of ``--region``."""
    return {VARIABLES[cloud][0]: defaults[0].region for cloud, defaults in options.items()}


def find_default_regions(  # noqa: PLR0917 - in the order of the places
    options: DefaultRegions,
    environment: Mapping[str, str],
    project: Path | None = None,
    stack: str = "",
    project_name: str = "",
    config_file: Path | None = None,
) -> dict[str, tuple[DefaultRegion, ...]]:
    """Return the regions of each cloud from the stack's file, the options and the environment, in this order.

    The stack's file counts if it is given, or if the project at that path has the name in the stack's URNs.
    """
    regions: dict[str, tuple[DefaultRegion, ...]] = {}
    path = config_file or _find_stack_file(project, stack, project_name)
    settings = _read_mapping(path).get("config") if path else None
    for cloud, keys in SETTINGS.items():
        regions[cloud] = (
            *_find_values(settings, keys, path.name if path else ""),
            *options.get(cloud, ()),
            *_find_values(environment, VARIABLES[cloud]),
        )
    return regions


def find_region_in_provider_name(cloud: str, provider_urn: str | None) -> DefaultRegion | None:
    """Return the region that the name of an explicit provider contains, such as ``aws-eu-west-1``."""
    name = provider_urn.rpartition("::")[0].rpartition("::")[2] if provider_urn else ""
    match = PATTERNS[cloud].search(name) if cloud in PATTERNS else None
    return DefaultRegion(match.group(), f"the name of provider {name}") if match else None


def _suggest_region(region: str) -> str:
    """Return a question about the region that a misspelt one means, empty if none is close."""
    from gpufleet.catalog.prices import (  # imported where it is used: only a mistake needs it
        name_suggestion,
        similar_name,
    )

    known = {each for regions in name_suggestion.load_priced_names().regions.values() for each in regions}
    return similar_name.ask_about_names(similar_name.find_similar_names(region, known))


def _guess_cloud(region: str) -> str:
    matches = (cloud for cloud, pattern in PATTERNS.items() if pattern.match(region))
    return next(matches, "azure" if _LOCATION.fullmatch(region) else "")


def _find_values(values: Any, keys: Iterable[str], file_name: str = "") -> Iterable[DefaultRegion]:
    for key in keys:
        value = values.get(key) if isinstance(values, Mapping) else None
        if isinstance(value, str) and value:
            place = f"{key} in {file_name}" if file_name else key
            yield DefaultRegion(value, place, is_from_environment=not file_name)


def _find_stack_file(project: Path | None, stack: str, project_name: str) -> Path | None:
    """Return the stack's file in a project of that name, None if there is none."""
    if project is None or not stack or "/" in stack or not (project / PROJECT_FILE).is_file():
        return None
    text = read_text(project / PROJECT_FILE)
    if project_name and parse_project_setting(text, str(project / PROJECT_FILE), "name") != project_name:
        return None
    path = find_declared_stack_file(project, stack, text)
    return path if path.is_file() else None


def _read_mapping(path: Path) -> Mapping[str, Any]:
    from gpufleet.boundary import decode_yaml  # imported where it is used: the parser takes a while to load

    document = decode_yaml(read_text(path), str(path))
    return document if isinstance(document, Mapping) else {}
