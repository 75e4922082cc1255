"""Build what is right of a model whose data has mistakes, so that the rules check the rest.

A field that is wrong, or that a misspelt key may have meant, is left out: reading it is an ``AttributeError``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from gpufleet.fleet.document import SpecProblem
from gpufleet.fleet.error_explanation import guess_key

Model = TypeVar("Model", bound=BaseModel)
Loc = tuple[int | str, ...]
UNKNOWN_KEY = "extra_forbidden"


def build_partial_model(model: type[Model], data: Any, error: ValidationError) -> Model:
    """Return the model with the fields of ``data`` that are right."""
    return _build(model, data, [(item["loc"], item["type"]) for item in error.errors(include_url=False)])


def copy_partial_model(model: type[Model], source: BaseModel, values: Mapping[str, Any]) -> Model:
    """Return a model with the fields of another one, those that it has, and with the given values instead."""
    copied = model.model_construct(**{**source.__dict__, **values})
    for name in set(type(source).model_fields) - source.__dict__.keys() - values.keys():
        copied.__dict__.pop(name, None)
    return copied


def find_model_problems(partial: BaseModel) -> list[SpecProblem]:
    """Return what the model's own checks of several fields find in a partial model, which they have not seen."""
    problems = []
    for name, check in type(partial).__pydantic_decorators__.model_validators.items():
        if check.info.mode == "after":
            try:
                getattr(partial, name)()
            except PydanticCustomError as error:
                context = error.context or {}
                problems.append(SpecProblem(context["path"], context["problem"], context["remedy"]))
            except (AttributeError, ValidationError):
                continue
    return problems


def _build(model: type[Model], data: Any, mistakes: Sequence[tuple[Loc, str]]) -> Model:
    for name, check in model.__pydantic_decorators__.model_validators.items():
        if check.info.mode == "before":
            data = getattr(model, name)(data)
    keys = {name: field.alias or name for name, field in model.model_fields.items()}
    unknown = [str(loc[0]) for loc, kind in mistakes if len(loc) == 1 and kind == UNKNOWN_KEY]
    absent = {meant for key in unknown if (meant := guess_key(key, keys.values()))}
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        below = [(loc[1:], kind) for loc, kind in mistakes if loc and loc[0] == keys[name]]
        if keys[name] in absent or (below and not _is_container(field, data, keys[name], below)):
            absent.add(keys[name])
        elif below:
            values[name] = _build_items(_item_model(field), data[keys[name]], below)
        elif keys[name] in data:
            try:
                values[name] = _validate_field(field, data[keys[name]])
            except ValidationError:  # only wrong where the rest of the model is not known
                absent.add(keys[name])
    partial = model.model_construct(**{keys[name]: value for name, value in values.items()})
    for name, key in keys.items():
        if key in absent:
            partial.__dict__.pop(name, None)
    return partial


def _validate_field(field: FieldInfo, value: Any) -> Any:
    unnamed = copy(field)
    unnamed.alias = unnamed.validation_alias = unnamed.serialization_alias = None  # they belong to a model
    annotation: Any = Annotated[field.annotation, unnamed]
    return TypeAdapter(annotation).validate_python(value)


def _is_container(field: FieldInfo, data: Any, key: str, mistakes: Sequence[tuple[Loc, str]]) -> bool:
    """Return whether the field is a list or mapping of models, whose mistakes are all inside of one."""
    return (
        _item_model(field) is not None
        and isinstance(data.get(key), list | Mapping)
        and all(len(loc) > 1 and loc[1] != "[key]" for loc, _ in mistakes)
    )


def _item_model(field: FieldInfo) -> Any:
    """Return the model of a field's items: ``tuple[Pool, ...]``, ``dict[Name, NodeTemplate]``."""
    models = [
        part for part in get_args(field.annotation) if isinstance(part, type) and issubclass(part, BaseModel)
    ]
    return models[0] if len(models) == 1 and type(None) not in get_args(field.annotation) else None


def _build_items(model: Any, items: Any, mistakes: Sequence[tuple[Loc, str]]) -> Any:
    pairs = list(items.items() if isinstance(items, Mapping) else enumerate(items))
    built = {
        key: _build(model, item, [(loc[1:], kind) for loc, kind in mistakes if loc[0] == key])
        for key, item in pairs
    }
    return built if isinstance(items, Mapping) else tuple(built.values())
