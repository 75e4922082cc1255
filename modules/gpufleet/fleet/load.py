"""From files to a fleet: read, validate, apply the rules, read the racks."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpufleet.errors import InputError
from gpufleet.fleet import (  # noqa: F401 - they fill the tables
    rules_fleet,
    rules_node,
    rules_placement,
    rules_purchase,
    rules_template,
)
from gpufleet.fleet.document import Document, Problem, ambiguous_numbers, read
from gpufleet.fleet.explain import explain
from gpufleet.fleet.host_name import KEY, check_project
from gpufleet.fleet.rack_file import label_of, load_rack, mentions_plugin
from gpufleet.fleet.rule import check, check_fleet
from gpufleet.fleet.spec import Fleet, RackRef, RackUse, Spec
from gpufleet.paths import project_root


def load(stack: str, root: Path | None = None, config_file: Path | None = None) -> Fleet:
    """Return the fleet that a stack declares; what is wrong is one line with file, line and key."""
    root = root or project_root()
    path = config_file or root / "stacks" / f"Pulumi.{stack}.yaml"
    if config_file is not None and not path.is_file():
        raise InputError("no such file", where=label_of(path, root), remedy="check --config-file")
    if not path.is_file():
        raise InputError(f"no stack {stack!r}", where=label_of(path, root), remedy=_stacks(root))
    whole = read(path, label_of(path, root))
    config = whole.node.get("config") if isinstance(whole.node, Mapping) else None
    if not isinstance(config, Mapping) or KEY not in config:
        keys = [str(key) for key in config] if isinstance(config, Mapping) else []
        close = get_close_matches(KEY, keys, n=1)
        remedy = f"{close[0]!r} should read {KEY!r}" if close else f"put the fleet under config: {KEY}:"
        raise InputError(f"has no {KEY}", where=whole.label, remedy=remedy)
    return _fleet(Document(whole.label, config[KEY], KEY), stack, root)


def parse(mapping: Any, *, stack: str = "", root: Path | None = None, where: str = "") -> Fleet:
    """Return the fleet of a config that is parsed already, as a Pulumi program has it."""
    return _fleet(Document(where or "config", mapping, KEY), stack, root or project_root())


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a stack file: the fleet's keys, and room for what else Pulumi keeps there."""
    spec = Spec.model_json_schema()
    definitions = spec.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A stack of gpufleet",
        "type": "object",
        "properties": {"config": {"type": "object", "properties": {KEY: spec}, "required": [KEY]}},
        "required": ["config"],
        "$defs": definitions,
    }


def _fleet(document: Document, stack: str, root: Path) -> Fleet:
    data = document.data
    if not isinstance(data, dict):
        document.refuse([Problem((), "is not a mapping of keys to values", "start with owner, then pools")])
    document.refuse(list(ambiguous_numbers(document.node)))
    try:
        spec = Spec.model_validate(data)
    except ValidationError as error:
        document.refuse(explain(error, Spec, data))
        raise
    document.refuse(check(spec))
    racks = tuple(_rack(ref, index, document, root) for index, ref in enumerate(spec.racks))
    fleet = Fleet.of(spec, stack, racks)
    document.refuse(check_fleet(fleet))
    check_project(root, stack, spec, document.label)
    return fleet


def _rack(ref: RackRef, index: int, document: Document, root: Path) -> RackUse:
    path = root / ref.file
    if not path.is_file():
        known = sorted(file.stem for file in (root / "inventory").glob("*.yaml") if mentions_plugin(file))
        close = get_close_matches(path.stem, known, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"racks here: {', '.join(known) or 'none'}"
        key = ("racks", index, "inventory" if ref.inventory else "name")
        document.refuse([Problem(key, f"there is no {ref.file}", remedy)])
    return RackUse(**ref.model_dump(), rack=load_rack(path, root))


def _stacks(root: Path) -> str:
    names = sorted(file.name.split(".")[1] for file in (root / "stacks").glob("Pulumi.*.yaml"))
    return (
        f"stacks here: {', '.join(names)}" if names else "there is none yet: write stacks/Pulumi.<stack>.yaml"
    )
