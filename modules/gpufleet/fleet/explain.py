"""pydantic's errors in our words: the value, what would be right, what was probably meant."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gpufleet.fleet.document import Path_, Problem
from gpufleet.fleet.rule import misplaced

MISSING = "is missing"
UNKNOWN = "unknown key"

SIMPLE = {
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


def explain(error: ValidationError, model: type[BaseModel], data: Any) -> list[Problem]:
    """Return every problem that pydantic found, in our words."""
    problems = [_problem(item, model, data) for item in error.errors(include_url=False)]
    unknown = {problem.path[:-1] for problem in problems if problem.text.startswith(UNKNOWN)}
    # A misspelt key is also a missing one: say only what the user wrote.
    return [problem for problem in problems if not (problem.text == MISSING and problem.path[:-1] in unknown)]


def _problem(item: ErrorDetails, model: type[BaseModel], data: Any) -> Problem:
    path = _path(item["loc"], data)
    kind, context = item["type"], item.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(path, item["loc"], model)
    if kind == "missing":
        return Problem(path, MISSING, "add it")
    if kind == "gpufleet":
        return Problem(path, context["problem"], context["remedy"])
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _tag(path, kind, context)
    if kind == "literal_error":
        return _literal(path, item["input"], context["expected"])
    wanted = SIMPLE.get(kind)
    remedy = wanted.format(**context) if wanted else item["msg"][0].lower() + item["msg"][1:]
    return Problem(path, f"is {show(item['input'])}", f"give {remedy}" if wanted else remedy)


def _path(loc: tuple[int | str, ...], data: Any) -> Path_:
    """Return the place in the user's file: pydantic's, without the tags of unions.

    Where a whole mapping is wrong its tag, ``inline``, comes last and looks like a key that is missing.
    """
    path: list[int | str] = []
    for position, step in enumerate(loc):
        last = position == len(loc) - 1
        present = (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int)
        )
        if present:
            data = data[step]
        elif step == "inline" or not (last and isinstance(data, dict)):
            continue
        path.append(step)
    return tuple(path)


def _unknown_key(path: Path_, loc: tuple[int | str, ...], model: type[BaseModel]) -> Problem:
    key = str(path[-1])
    holder = _holder(loc[:-1], model)
    rule = misplaced(str(loc[-2]) if len(loc) > 1 else "", key)
    if rule is not None:
        return Problem(path, f"{rule.reason} (rule {rule.id})", rule.remedy)
    known = [field.alias or name for name, field in holder.model_fields.items()] if holder else []
    close = get_close_matches(key, known, n=1)
    if close:
        return Problem(path, f"{UNKNOWN} {key!r}", f"did you mean {close[0]!r}?")
    return Problem(path, f"{UNKNOWN} {key!r}", f"known keys: {', '.join(known)}" if known else "remove it")


def _holder(loc: tuple[int | str, ...], model: Any) -> type[BaseModel] | None:
    """Return the model that holds the last key of ``loc``: walk the annotations, choose unions by tag."""
    for step in loc:
        if isinstance(step, int):
            continue
        models = list(_models(model))
        fields = [
            field.annotation
            for one in models
            for name, field in one.model_fields.items()
            if step in (name, field.alias)
        ]
        tagged = [one for one in models if _tag_of(one) == step]
        if fields:
            model = fields[0]
        elif tagged:
            model = tagged[0]
    found = list(_models(model))
    return found[0] if len(found) == 1 else None


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for part in get_args(annotation):
        yield from _models(part)


def _tag_of(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("kind")
    return get_args(field.annotation)[0] if field is not None and get_args(field.annotation) else None


def _tag(path: Path_, kind: str, context: dict[str, Any]) -> Problem:
    where = (*path, str(context["discriminator"]).strip("'"))
    tags = [tag.strip(" '") for tag in str(context.get("expected_tags", "")).split(",") if tag]
    if kind == "union_tag_not_found":
        return Problem(where, MISSING, "add it: on_demand, spot or reserved")
    return _choice(where, context["tag"], tags)


def _literal(path: Path_, value: Any, expected: str) -> Problem:
    return _choice(path, value, [word.strip(" '") for word in expected.replace(" or ", ", ").split(",")])


def _choice(path: Path_, value: Any, choices: list[str]) -> Problem:
    close = get_close_matches(str(value), choices, n=1)
    listed = choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
    return Problem(path, f"is {show(value)}", f"did you mean {close[0]!r}?" if close else f"give {listed}")


def show(value: Any) -> str:
    """Return a value as an error shows it: short."""
    text = "empty" if value is None else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"  # noqa: PLR2004 - one line stays one line
