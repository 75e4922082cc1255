"""Data files of our own package: no limits and no checks, they are what our tests ran with."""

from __future__ import annotations

import csv
import json
from importlib.resources import files
from typing import Any


def packaged_text(package: str, name: str) -> str:
    """Return a data file's text; ``name`` is its path in the package, with slashes."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def packaged_rows(package: str, name: str) -> list[dict[str, str]]:
    """Return the rows of a CSV data file."""
    return list(csv.DictReader(packaged_text(package, name).splitlines()))


def packaged_json(package: str, name: str) -> Any:
    """Return the content of a JSON data file."""
    return json.loads(packaged_text(package, name))


def packaged_yaml(package: str, name: str) -> Any:
    """Return the content of a YAML data file, by libyaml where it is built in: ten times as fast."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(packaged_text(package, name), Loader=loader)  # noqa: S506 - a safe loader by either name
