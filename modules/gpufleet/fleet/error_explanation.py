"""Explain pydantic's errors: the value, what is expected, what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gpufleet.fleet.document import KeyPath, SpecProblem
from gpufleet.fleet.rule import find_misplaced_key_rule

MISSING = "is missing"
UNKNOWN = "unknown key"
PURCHASE_KINDS = "on_demand, spot, reserved, committed, capacity_block, flex_start, or a ladder of them"

# Keys of the container form before compose and quadlet files, and the key that replaced both.
REPLACED_KEYS = ("containers", "units")
REPLACING_KEY = "container_files"
REPLACED_REMEDY = f"name a compose or quadlet file under {REPLACING_KEY}: docs/containers.md, Migration"

# What other tools call a key of ours.
SYNONYMS = {
    "cloud": ("provider", "vendor"),
    "machine": ("instance_type", "machine_type", "vm_size", "instance", "type", "model"),
    "accelerators": ("gpu", "gpus", "cards", "accelerator_type"),
    "count": ("size", "replicas", "nodes", "instances", "node_count", "quantity"),
    "kind": ("type",),
    "zones": ("availability_zones", "az"),
    "max_usd_per_hour": ("max_price", "spot_price", "bid", "spot_max_price"),
    "pools": ("node_pools", "node_groups", "nodes"),
    "address": ("ip", "ip_address", "host", "hostname", "ansible_host"),
    "nodes": ("hosts", "servers", "blades"),
}

# The key that a text in place of a mapping was meant for: `purchase: spot`.
MAIN_KEYS = {
    "purchase": "kind", "accelerators": "model", "network": "cidr", "driver": "vendor", "bmc": "address",
    "racks": "name", "nodes": "name", "pools": "name", "workstations": "name", "disk": "size_gib",
}  # fmt: skip

# What a suggested key holds, where its name is easily taken for something else.
KEY_MEANINGS = {
    "capital_usd": "the price of all nodes together", "capital_eur": "the price of all nodes together",
}  # fmt: skip

# What a missing key may be, for a first reading; other keys are only named.
EXAMPLES = {
    "owner": "owner: ml-platform", "name": "name: train", "cloud": "cloud: aws", "region": "region: us-east-1",
    "machine": "machine: g5.2xlarge", "count": "count: 1", "purchase": "purchase: {kind: on_demand}",
    "min": "min: 1", "max": "max: 4", "site": "site: lab", "nodes": "nodes: node[01-06]",
    "cidr": "cidr: 10.20.1.0/24", "protocol": "protocol: redfish", "life_years": "life_years: 4",
    "watts_per_node": "watts_per_node: 300", "usd_per_kwh": "usd_per_kwh: 0.30",
    "source": "source: invoice 2026-17",
}  # fmt: skip

EXPECTED_FORMS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "string_pattern_mismatch": "text that matches {pattern}",
    "string_too_short": "at least {min_length} characters",
    "too_short": "at least {min_length} entries",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text (quote it, if it looks like a number)",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "ip_any_network": "a network like 10.0.0.0/8, host bits zero",
    "date_from_datetime_parsing": "a date like 2026-07-30",
    "date_type": "a date like 2026-07-30",
}


MAPPING_EXPECTED = ("dict_type", "model_type", "model_attributes_type")


def guess_key(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that an unknown one was probably meant as."""
    names = list(known)
    close = get_close_matches(key, names, n=1)
    longer = [name for name in names if name.startswith(f"{key}_")]
    synonyms = [name for name in names if key in SYNONYMS.get(name, ())]
    return next(iter([*close, *longer, *synonyms]), None)


def explain_validation_errors(error: ValidationError, model: type[BaseModel], data: Any) -> list[SpecProblem]:
    """Return every problem that pydantic found, as our messages."""
    problems = [_explain_error(item, model, data) for item in error.errors(include_url=False)]
    parents_of_unknown_keys = {problem.path[:-1] for problem in problems if problem.text.startswith(UNKNOWN)}
    # A misspelt key is also a missing one: say only what the user wrote.
    return [
        problem
        for problem in problems
        if not (problem.text == MISSING and problem.path[:-1] in parents_of_unknown_keys)
    ]


def _explain_error(item: ErrorDetails, model: type[BaseModel], data: Any) -> SpecProblem:
    path = _file_path(item["loc"], data)
    kind, context = item["type"], item.get("ctx", {})
    if kind == "extra_forbidden":
        return _explain_unknown_key(path, item["loc"], model)
    if kind == "missing":
        key = str(path[-1])
        if key == "plugin":
            return SpecProblem(path, MISSING, "begin with plugin: gpufleet.fleet.rack")
        return SpecProblem(path, MISSING, f"add {EXAMPLES[key]}" if key in EXAMPLES else "add it")
    if kind == "gpufleet":
        return SpecProblem((*path, *context["path"]), context["problem"], context["remedy"])
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _explain_tag(path, kind, context)
    if kind == "literal_error":
        return _explain_literal(path, item["input"], context["expected"])
    if path[-1:] == ("bmc",) and item["input"] in (False, "none"):
        remedy = (
            "leave it out, or write bmc: false in a node's entry" if len(path) == 1 else "write bmc: false"
        )
        return SpecProblem(path, f"is {abbreviate_value(item['input'])}", remedy)
    if kind == "tuple_type" and path[-1:] == ("accelerators",) and isinstance(item["input"], dict):
        return SpecProblem(path, "is one mapping", "write a list: [{model: …, count: …}]")
    if kind in MAPPING_EXPECTED and isinstance(item["input"], str) and (example := _find_short_form(item)):
        return SpecProblem(path, f"is {abbreviate_value(item['input'])}", f"write {example}")
    expected_form = EXPECTED_FORMS.get(kind)
    bounds = {name: int(n) if isinstance(n, float) and n.is_integer() else n for name, n in context.items()}
    remedy = expected_form.format(**bounds) if expected_form else item["msg"][0].lower() + item["msg"][1:]
    return SpecProblem(
        path, f"is {abbreviate_value(item['input'])}", f"give {remedy}" if expected_form else remedy
    )


def _file_path(loc: tuple[int | str, ...], data: Any) -> KeyPath:
    """Return the place in the user's file: pydantic's, without the tags of unions.

    Where a whole mapping is wrong its tag, ``inline``, comes last and looks like a key that is missing.
    """
    path: list[int | str] = []
    for position, part in enumerate(loc):
        last = position == len(loc) - 1
        present = (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int)
        )
        if present:
            data = data[part]
        elif part == "inline" or not (last and isinstance(data, dict)):
            continue
        path.append(part)
    return tuple(path)


def _explain_unknown_key(path: KeyPath, loc: tuple[int | str, ...], model: type[BaseModel]) -> SpecProblem:
    key = str(path[-1])
    model_of_key = _find_model(loc[:-1], model)
    rule = find_misplaced_key_rule(str(loc[-2]) if len(loc) > 1 else "", key)
    if rule is not None:
        return SpecProblem(path, f"{rule.reason} (rule {rule.id})", rule.remedy)
    known = [field.alias or name for name, field in model_of_key.model_fields.items()] if model_of_key else []
    if key in REPLACED_KEYS and REPLACING_KEY in known:
        return SpecProblem(path, f"{key!r} was replaced by {REPLACING_KEY!r}", REPLACED_REMEDY)
    if key.isdigit():
        return SpecProblem(path, f"{UNKNOWN} {key!r}", "write a decimal number with a point, 0.30")
    if meant := guess_key(key, known):
        meaning = f", {KEY_MEANINGS[meant]}" if meant in KEY_MEANINGS else ""
        return SpecProblem(path, f"{UNKNOWN} {key!r}", f"did you mean {meant!r}{meaning}?")
    return SpecProblem(
        path, f"{UNKNOWN} {key!r}", f"known keys: {', '.join(known)}" if known else "remove it"
    )


def _find_short_form(item: ErrorDetails) -> str:
    """Return the mapping that a text was probably meant as: ``{kind: spot}``."""
    field = next((step for step in reversed(item["loc"]) if isinstance(step, str) and step != "inline"), "")
    key, text = MAIN_KEYS.get(field, ""), abbreviate_value(item["input"]).strip("'")
    if key == "kind":
        text = text.lower().replace("-", "_")
    elif key == "size_gib":
        text = re.sub(r" *gi?b$", "", text, flags=re.IGNORECASE)
    elif key == "model":
        text = re.sub(r"^(\d+) *x *(.+)$", r"\2, count: \1", text)
    return f"{{{key}: {text}}}" if key else ""


def _find_model(loc: tuple[int | str, ...], model: Any) -> type[BaseModel] | None:
    """Return the model that holds the last key of ``loc``: walk the annotations, choose unions by tag."""
    for step in loc:
        if isinstance(step, int):
            continue
        models = list(_list_models(model))
        fields = [
            field.annotation
            for candidate in models
            for name, field in candidate.model_fields.items()
            if step in (name, field.alias)
        ]
        tagged = [candidate for candidate in models if _tag_of(candidate) == step]
        if fields:
            model = fields[0]
        elif tagged:
            model = tagged[0]
    models_left = list(_list_models(model))
    return models_left[0] if len(models_left) == 1 else None


def _list_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for part in get_args(annotation):
        yield from _list_models(part)


def _tag_of(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("kind")
    return get_args(field.annotation)[0] if field is not None and get_args(field.annotation) else None


def _explain_tag(path: KeyPath, kind: str, context: dict[str, Any]) -> SpecProblem:
    where = (*path, str(context["discriminator"]).strip("'"))
    tags = [tag.strip(" '") for tag in str(context.get("expected_tags", "")).split(",") if tag]
    if kind == "union_tag_not_found":
        return SpecProblem(where, MISSING, f"add it: {PURCHASE_KINDS}")
    return _explain_choice(where, context["tag"], tags)


def _explain_literal(path: KeyPath, value: Any, expected: str) -> SpecProblem:
    return _explain_choice(
        path, value, [choice.strip(" '") for choice in expected.replace(" or ", ", ").split(",")]
    )


def _explain_choice(path: KeyPath, value: Any, choices: list[str]) -> SpecProblem:
    close = get_close_matches(str(value).lower(), choices, n=1)
    listed = choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
    return SpecProblem(
        path, f"is {abbreviate_value(value)}", f"did you mean {close[0]!r}?" if close else f"give {listed}"
    )


def abbreviate_value(value: Any) -> str:
    """Return a value as an error shows it: short."""
    text = "empty" if value is None else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"  # noqa: PLR2004 - one line stays one line
