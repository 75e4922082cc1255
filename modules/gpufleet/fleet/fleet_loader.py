"""From files to a fleet: read, validate, apply the rules, read the racks and the container files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpufleet.boundary import validate_with_pydantic
from gpufleet.errors import InputError
from gpufleet.fleet import (  # noqa: F401 - they fill the tables
    rules_capacity,
    rules_fabric,
    rules_fleet,
    rules_limit,
    rules_node,
    rules_offering,
    rules_placement,
    rules_purchase,
    rules_spot,
    rules_template,
)
from gpufleet.fleet.container_file import ContainerFile, load_container_file
from gpufleet.fleet.document import SpecProblem, YamlDocument, find_ambiguous_numbers, read_yaml_document
from gpufleet.fleet.error_explanation import explain_validation_errors
from gpufleet.fleet.host_name import CONFIG_KEY, check_project_host_names
from gpufleet.fleet.pool_request import MonthlyBudget
from gpufleet.fleet.rack_file import is_rack_file_candidate, load_rack, project_relative_path
from gpufleet.fleet.rule import find_fleet_problems, find_spec_problems
from gpufleet.fleet.rules_template import list_applications_with_paths
from gpufleet.fleet.spec import Fleet, FleetSpec, RackReference, StackRack
from gpufleet.paths import find_project_root

PROVIDER_ACCOUNTS = {
    "provider_project": "gcp:project",
    "provider_subscription": "azure-native:subscriptionId",
}


def load_fleet(stack: str, root: Path | None = None, config_file: Path | None = None) -> Fleet:
    """Return the fleet that a stack declares; what is wrong is one line with file, line and key."""
    root = root or find_project_root()
    path = config_file or root / "stacks" / f"Pulumi.{stack}.yaml"
    if config_file is not None and not path.is_file():
        raise InputError(
            "no such file", where=project_relative_path(path, root), remedy="check --config-file"
        )
    if not path.is_file():
        raise InputError(
            f"stack {stack!r} not found",
            where=project_relative_path(path, root),
            remedy=_suggest_stacks(root),
        )
    document = read_yaml_document(path, project_relative_path(path, root))
    config = document.node.get("config") if isinstance(document.node, Mapping) else None
    if not isinstance(config, Mapping) or CONFIG_KEY not in config:
        keys = [str(key) for key in config] if isinstance(config, Mapping) else []
        close_keys = get_close_matches(CONFIG_KEY, keys, n=1)
        remedy = (
            f"{close_keys[0]!r} should read {CONFIG_KEY!r}"
            if close_keys
            else f"put the fleet under config: {CONFIG_KEY}:"
        )
        raise InputError(f"has no {CONFIG_KEY}", where=document.label, remedy=remedy)
    fleet = _validate_fleet(YamlDocument(document.label, config[CONFIG_KEY], CONFIG_KEY), stack, root)
    accounts = {field: config.get(key) for field, key in PROVIDER_ACCOUNTS.items()}
    return fleet.model_copy(
        update={field: str(name) for field, name in accounts.items() if isinstance(name, str)}
    )


def read_budget(text: str, label: str) -> MonthlyBudget | None:
    """Return the budget in the text of a stack's file, None without one; the rest of the file may be invalid."""
    document = read_yaml_document(Path(label), label, text)
    config = document.plain_data.get("config") if isinstance(document.plain_data, dict) else None
    spec = config.get(CONFIG_KEY) if isinstance(config, dict) else None
    value = spec.get("budget_usd_per_month") if isinstance(spec, dict) else None
    return None if value is None else validate_with_pydantic(MonthlyBudget, value, label)


def parse_fleet(mapping: Any, *, stack: str = "", root: Path | None = None, where: str = "") -> Fleet:
    """Return the fleet of a config that is parsed already, as a Pulumi program has it."""
    return _validate_fleet(
        YamlDocument(where or "config", mapping, CONFIG_KEY), stack, root or find_project_root()
    )


def build_stack_json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a stack file: the fleet's keys, and room for what else Pulumi keeps there."""
    spec = FleetSpec.model_json_schema()
    definitions = spec.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A stack of gpufleet",
        "type": "object",
        "properties": {
            "config": {"type": "object", "properties": {CONFIG_KEY: spec}, "required": [CONFIG_KEY]}
        },
        "required": ["config"],
        "$defs": definitions,
    }


def format_stack_json_schema() -> str:
    """Return the schema as the file next to the stacks, from which an editor completes and checks the keys."""
    return json.dumps(build_stack_json_schema(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _validate_fleet(document: YamlDocument, stack: str, root: Path) -> Fleet:
    data = document.plain_data
    if not isinstance(data, dict):
        document.raise_first_problem(
            [
                SpecProblem(
                    (),
                    "is not a mapping of keys to values",
                    "write a mapping that begins with owner and pools",
                )
            ]
        )
    document.raise_first_problem(list(find_ambiguous_numbers(document.node)))
    try:
        spec = FleetSpec.model_validate(data)
    except ValidationError as error:
        document.raise_first_problem(explain_validation_errors(error, FleetSpec, data))
        raise
    document.raise_first_problem(find_spec_problems(spec))
    racks = tuple(_load_stack_rack(ref, index, document, root) for index, ref in enumerate(spec.racks))
    fleet = Fleet.from_spec(spec, stack, racks, _load_container_files(spec, document, root))
    document.raise_first_problem(find_fleet_problems(fleet))
    check_project_host_names(root, stack, spec, document.label)
    return fleet


def _load_stack_rack(
    rack_reference: RackReference, index: int, document: YamlDocument, root: Path
) -> StackRack:
    path = root / rack_reference.inventory_file
    if not path.is_file():
        known = sorted(
            file.stem for file in (root / "inventory").glob("*.yaml") if is_rack_file_candidate(file)
        )
        close_names = get_close_matches(path.stem, known, n=1)
        remedy = (
            f"did you mean {close_names[0]!r}?"
            if close_names
            else f"racks here: {', '.join(known) or 'none'}"
        )
        key = ("racks", index, "inventory" if rack_reference.inventory else "name")
        document.raise_first_problem([SpecProblem(key, f"{rack_reference.inventory_file} not found", remedy)])
    return StackRack(**rack_reference.model_dump(), rack=load_rack(path, root))


def _load_container_files(spec: FleetSpec, document: YamlDocument, root: Path) -> dict[str, ContainerFile]:
    files: dict[str, ContainerFile] = {}
    for where, application in list_applications_with_paths(spec):
        for index, path in enumerate(application.container_files):
            if not (root / path).is_file():
                problem = SpecProblem(
                    (*where, "container_files", index), f"{path} not found", "give its path in the project"
                )
                document.raise_first_problem([problem])
            files[path] = load_container_file(path, root)
    return files


def _suggest_stacks(root: Path) -> str:
    names = sorted(file.name.split(".")[1] for file in (root / "stacks").glob("Pulumi.*.yaml"))
    return (
        f"stacks here: {', '.join(names)}"
        if names
        else "no stack is declared yet: write stacks/Pulumi.<stack>.yaml"
    )
