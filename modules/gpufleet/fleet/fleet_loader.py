"""From files to a fleet: read, validate, apply the rules, read the racks and the container files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpufleet.boundary import validate_with_pydantic
from gpufleet.errors import InputError
from gpufleet.fleet import (  # noqa: F401 - they fill the tables
    rules_account,
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
from gpufleet.fleet.application import Application
from gpufleet.fleet.container_file import ContainerFile, load_container_file
from gpufleet.fleet.document import (
    KeyPath,
    SpecProblem,
    YamlDocument,
    find_ambiguous_numbers,
    raise_first_error,
    read_yaml_document,
    to_plain_values,
)
from gpufleet.fleet.error_explanation import explain_validation_errors
from gpufleet.fleet.host_name import CONFIG_KEY, check_project_host_names
from gpufleet.fleet.partial_model import build_partial_model, copy_partial_model
from gpufleet.fleet.pool_request import MonthlyBudget
from gpufleet.fleet.provider_setting import find_provider_problems
from gpufleet.fleet.rack_file import list_rack_file_names, load_rack, project_relative_path
from gpufleet.fleet.rule import find_fleet_problems, find_spec_problems
from gpufleet.fleet.rules_template import list_applications_with_paths
from gpufleet.fleet.spec import Fleet, FleetSpec, RackReference, StackRack
from gpufleet.paths import find_project_root, refuse_stack_file_name

FIRST_LINES = f"config: {{{CONFIG_KEY}: {{owner: …, pools: […]}}}}"
PROVIDER_ACCOUNTS = {
    "provider_project": "gcp:project",
    "provider_subscription": "azure-native:subscriptionId",
}


def load_fleet(stack: str, root: Path | None = None, config_file: Path | None = None) -> Fleet:
    """Return the fleet that a stack declares; what is wrong is one line with file, line and key."""
    root = root or find_project_root()
    document, config = _read_config(stack, root, config_file)
    fleet = _validate_fleet(YamlDocument(document.label, config[CONFIG_KEY], CONFIG_KEY), stack, root)
    accounts = {field: config.get(key) for field, key in PROVIDER_ACCOUNTS.items()}
    return fleet.model_copy(
        update={field: str(name) for field, name in accounts.items() if isinstance(name, str)}
    )


def check_stack(stack: str, root: Path) -> tuple[Fleet | None, list[InputError], list[InputError]]:
    """Return the fleet of a stack, what is wrong with its files, and what a build will need besides.

    Stricter than ``load_fleet``: Pulumi's own providers must find what they refuse to start without.
    """
    errors: list[InputError] = []
    fleet = None
    try:
        fleet = load_fleet(stack, root)
    except InputError as error:
        errors += error.errors
    try:
        document, config = _read_config(stack, root)
    except InputError:
        return None, errors, []
    wrong, missing = find_provider_problems(to_plain_values(config))
    return fleet, errors + document.list_errors(wrong), document.list_errors(missing)


def check_stack_exists(stack: str, root: Path) -> None:
    """Raise InputError if the project has no file of that stack."""
    path = root / "stacks" / f"Pulumi.{stack}.yaml"
    if not path.is_file():
        refuse_stack_file_name(stack)
        where = project_relative_path(path, root)
        raise InputError(f"stack {stack!r} not found", where=where, remedy=_suggest_stacks(root))


def _read_config(
    stack: str, root: Path, config_file: Path | None = None
) -> tuple[YamlDocument, Mapping[str, Any]]:
    """Return a stack's file and its ``config``, which has a fleet."""
    path = config_file or root / "stacks" / f"Pulumi.{stack}.yaml"
    label = project_relative_path(path, root)
    if config_file is None:
        check_stack_exists(stack, root)
    elif not path.is_file():
        raise InputError("no such file", where=label, remedy="check --config-file")
    document = read_yaml_document(path, label)
    document.raise_first_problem([*_find_frame_problems(document.node, path)])
    return document, document.node["config"]


def _find_frame_problems(node: Any, path: Path) -> Iterator[SpecProblem]:
    """Yield what is wrong around the fleet in a stack's file."""
    if not isinstance(node, Mapping):
        empty = "has only comments" if path.read_text(encoding="utf-8").strip() else "is empty"
        problem = empty if node is None else "is not a mapping of keys to values"
        yield SpecProblem((), problem, f"declare the fleet: {FIRST_LINES}")
        return
    keys, config = [str(key) for key in node], node.get("config")
    if CONFIG_KEY in keys:
        yield SpecProblem((CONFIG_KEY,), "is not under config", f"indent it: {FIRST_LINES}")
    elif "config" not in keys and (close := get_close_matches("config", keys, n=1)):
        yield SpecProblem((close[0],), f"unknown key {close[0]!r}", "did you mean 'config'?")
    elif "config" not in keys:
        yield SpecProblem((), "has no config", f"write {FIRST_LINES}")
    elif not isinstance(config, Mapping):
        yield SpecProblem(
            ("config",), "is empty" if config is None else "is not a mapping", f"write {FIRST_LINES}"
        )
    elif CONFIG_KEY not in config:
        keys = [str(key) for key in config]
        close = get_close_matches(CONFIG_KEY, keys, n=1) or [key for key in keys if key == "fleet"]
        remedy = f"{close[0]!r} should read {CONFIG_KEY!r}" if close else f"write {FIRST_LINES}"
        yield SpecProblem(("config", *close), f"has no {CONFIG_KEY}", remedy)


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
    problems = list(find_ambiguous_numbers(document.node))
    try:
        spec = FleetSpec.model_validate(data)
    except ValidationError as error:
        problems += explain_validation_errors(error, FleetSpec, data)
        spec = build_partial_model(FleetSpec, data, error)
    problems += find_spec_problems(spec, is_partial=bool(problems))
    errors: list[InputError] = []
    racks = _load_stack_racks(spec, document, root, errors)
    files = _load_container_files(spec, document, root, errors)
    is_partial = bool(problems or errors)
    if is_partial:
        values = {"stack": stack, "racks": racks, "container_files": files}
        fleet = copy_partial_model(Fleet, spec, values)
    else:
        fleet = Fleet.from_spec(spec, stack, racks, files)
    problems += find_fleet_problems(fleet, is_partial=is_partial)
    errors = [*document.list_errors(problems), *errors]
    try:
        check_project_host_names(root, stack, data, document.label)
    except InputError as error:
        errors.append(error)
    raise_first_error(errors)
    return fleet


def _load_stack_racks(
    spec: FleetSpec, document: YamlDocument, root: Path, errors: list[InputError]
) -> tuple[StackRack, ...]:
    """Return the racks that can be read; add to ``errors`` what is wrong with the others."""
    racks = []
    for index, reference in enumerate(getattr(spec, "racks", ())):
        path = root / getattr(reference, "inventory_file", "")
        if path == root:  # its name is wrong
            continue
        try:
            if not path.is_file():
                document.raise_first_problem([_missing_rack_problem(reference, index, path, root)])
            racks.append(StackRack(**reference.model_dump(), rack=load_rack(path, root)))
        except InputError as error:
            errors += error.errors
    return tuple(racks)


def _missing_rack_problem(reference: RackReference, index: int, path: Path, root: Path) -> SpecProblem:
    known = list_rack_file_names(root)
    close_names = get_close_matches(path.stem, known, n=1)
    remedy = (
        f"did you mean {close_names[0]!r}?" if close_names else f"racks here: {', '.join(known) or 'none'}"
    )
    key = ("racks", index, "inventory" if reference.inventory else "name")
    return SpecProblem(key, f"{reference.inventory_file} not found", remedy)


def _load_container_files(
    spec: FleetSpec, document: YamlDocument, root: Path, errors: list[InputError]
) -> dict[str, ContainerFile]:
    """Return the files by path; add to ``errors`` what is wrong with those that cannot be read."""
    files: dict[str, ContainerFile] = {}
    for where, application in _list_known_applications(spec):
        for index, path in enumerate(application.container_files):
            try:
                if not (root / path).is_file():
                    problem = SpecProblem(
                        (*where, "container_files", index),
                        f"{path} not found",
                        "give its path in the project",
                    )
                    document.raise_first_problem([problem])
                files[path] = load_container_file(path, root)
            except InputError as error:
                errors += error.errors
    return files


def _list_known_applications(spec: FleetSpec) -> list[tuple[KeyPath, Application]]:
    """Return the applications with their places; none where a template of the spec is wrong."""
    try:
        return list(list_applications_with_paths(spec))
    except AttributeError:
        return []


def _suggest_stacks(root: Path) -> str:
    names = sorted(file.name.split(".")[1] for file in (root / "stacks").glob("Pulumi.*.yaml"))
    return (
        f"stacks here: {', '.join(names)}"
        if names
        else "no stack is declared yet: write stacks/Pulumi.<stack>.yaml"
    )
