"""Packages that import a module when one of its names is used: all of them take longer than a quick answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def make_module_getattr(package: str, names_by_module: Mapping[str, Iterable[str]]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package (PEP 562) that imports a module when one of its names is used."""
    modules = {name: module for module, names in names_by_module.items() for name in names}

    def get_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return get_name
