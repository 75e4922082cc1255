"""Which inputs of a resource a change alters, without those that never bill (``data/inputs_never_billed.csv``)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.inputs.graph import NAME_KEYS, is_default_provider, strip_api_version
from gpufleet.cost.inputs.values import MAPPING_TYPES, is_list
from gpufleet.engine import SECRET, StateResource, UnreadableValue

DEFAULTS_KEY = "__defaults"  # where a bridged provider lists the inputs that it filled by itself
INDEX = re.compile(r"\[\d+\]")
MISSING = object()
PROVIDER_PATH = "provider"


def find_changed_inputs(
    before: StateResource,
    after: StateResource,
    *,
    is_deployed_before: bool = False,
    reported_keys: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the paths of inputs that differ and may bill, sorted.

    ``is_deployed_before``: the inputs before come from a state, with what the provider fills in by itself.
    ``reported_keys`` are inputs that the engine reports as changed: secrets can only be compared by it.
    """
    paths = set()
    keys = {*after.inputs, *_declared_keys(before, after, is_deployed_before=is_deployed_before)}
    for key in keys:
        old, new = before.inputs.get(key, MISSING), after.inputs.get(key, MISSING)
        refers_alike = _dependencies(before, key) == _dependencies(after, key)
        paths |= set(_compare(key, old, new, can_match_unknown=is_deployed_before and refers_alike))
        if _contains(old, UnreadableValue) and _contains(new, UnreadableValue) and not refers_alike:
            paths.add(key)
        if key in reported_keys and _contains(new, SECRET):
            paths.add(key)
    if _provider_urn(before) != _provider_urn(after) and not is_deployed_before:
        paths.add(PROVIDER_PATH)
    type_ = strip_api_version(after.type)
    return tuple(sorted(path for path in paths if not is_never_billed(type_, path)))


def _declared_keys(before: StateResource, after: StateResource, *, is_deployed_before: bool) -> Iterable[str]:
    """Return the inputs before that a program declared: a state has also what its provider filled in."""
    filled = before.inputs.get(DEFAULTS_KEY) if is_deployed_before else ()
    if filled is None:  # such a provider does not tell: what only the state has may be its own
        return set(before.inputs) & set(after.inputs)
    return set(before.inputs) - set(map(str, filled if is_list(filled) else ()))


def _compare(path: str, old: Any, new: Any, *, can_match_unknown: bool) -> Iterator[str]:
    """Yield the paths at which two values differ; ``can_match_unknown``: unknown now may be what it was."""
    if old is new or old == new or path.rsplit(".", 1)[-1].startswith("__"):
        return
    if can_match_unknown and (isinstance(new, UnreadableValue) or _is_placeholder(new)):
        return
    if isinstance(old, MAPPING_TYPES) and isinstance(new, MAPPING_TYPES):
        for key in {*old, *new}:
            values = old.get(key, MISSING), new.get(key, MISSING)
            yield from _compare(f"{path}.{key}", *values, can_match_unknown=can_match_unknown)
    elif is_list(old) and is_list(new) and len(old) == len(new):
        for index, values in enumerate(zip(old, new, strict=True)):
            yield from _compare(f"{path}[{index}]", *values, can_match_unknown=can_match_unknown)
    elif not _is_same_scalar(old, new):
        yield path


def _is_placeholder(value: Any) -> bool:
    """Return whether a text is what an evaluation without the cloud answers a look-up with: <subnet-1>."""
    return isinstance(value, str) and value.startswith("<") and value.endswith(">")


def _is_same_scalar(old: Any, new: Any) -> bool:
    """Return whether two values are one to a provider: 50 and "50", and nothing in each form."""
    empty = (MISSING, None)
    if old in empty or new in empty:
        return old in empty and new in empty
    is_scalar = all(isinstance(each, str | int | float) for each in (old, new))
    return is_scalar and str(old).lower() == str(new).lower()


def _contains(value: Any, marker: Any) -> bool:
    """Return whether a value is or holds a marker, or one of a class of markers."""
    if isinstance(value, MAPPING_TYPES):
        return any(_contains(each, marker) for each in value.values())
    if is_list(value):
        return any(_contains(each, marker) for each in value)
    return isinstance(value, marker) if isinstance(marker, type) else value is marker


def _dependencies(resource: StateResource, key: str) -> frozenset[str]:
    return frozenset(resource.property_dependencies.get(key, ()))


def _provider_urn(resource: StateResource) -> str:
    """Return the URN of an explicit provider; default ones have a version in it, which bills nothing."""
    urn = (resource.provider or "").rpartition("::")[0]
    return "" if is_default_provider(urn.rpartition("::")[2]) else urn


def is_never_billed(type_token: str, path: str) -> bool:
    """Return whether an input never bills; rows of the table name those of lists without their index."""
    path = INDEX.sub("", path)
    if path.startswith("__") or path == NAME_KEYS.get(type_token):
        return True
    return any(
        fnmatchcase(type_token, pattern) and (path == name or path.startswith(f"{name}."))
        for pattern, name in _load_inputs_never_billed()
    )


@cache
def _load_inputs_never_billed() -> tuple[tuple[str, str], ...]:
    """Return the type pattern and the input of each row of the table."""
    rows = read_packaged_rows("gpufleet.cost", "data/inputs_never_billed.csv")
    return tuple((row["type"], row["input"]) for row in rows)


def list_texts(value: Any) -> Iterator[str]:
    """Yield every text in nested inputs."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from list_texts(each)
    elif is_list(value):
        for each in value:
            yield from list_texts(each)
