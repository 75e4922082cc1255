"""Data files of this package: only CSV is checked, since its cells are text that readers convert."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from typing import Any

from gpufleet.boundary.csv_rows import CsvRow, decode_csv
from gpufleet.boundary.limit import LARGE_DOCUMENT


def read_packaged_text(package: str, name: str) -> str:
    """Return a data file's text; ``name`` is its path in the package, with slashes."""
    return _find_file(package, name).read_text(encoding="utf-8")


def read_packaged_bytes(package: str, name: str) -> bytes:
    """Return a data file's content."""
    return _find_file(package, name).read_bytes()


def _find_file(package: str, name: str) -> Path:
    return Path(import_module(package).__path__[0], name)


def read_packaged_rows(package: str, name: str) -> list[CsvRow]:
    """Return the rows of a CSV data file; an InputError about a cell names file, line and column."""
    where = f"{package.replace('.', '/')}/{name}"
    return decode_csv(read_packaged_text(package, name), where, limits=LARGE_DOCUMENT)


def read_packaged_columns(package: str, name: str, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield those cells of each row of a CSV data file: of a long table in a third of the time of its rows."""
    reader = csv.reader(read_packaged_text(package, name).splitlines(), strict=True)
    header = next(reader)
    return map(itemgetter(*(header.index(column) for column in columns)), reader)


def read_packaged_json(package: str, name: str) -> Any:
    """Return the content of a JSON data file."""
    return json.loads(read_packaged_text(package, name))


def read_packaged_yaml(package: str, name: str) -> Any:
    """Return the content of a YAML data file, by the reader of the plain subset if it can: twice as fast."""
    import yaml

    from gpufleet.boundary.yaml_subset import YAML_READER, decode_yaml_subset

    text = read_packaged_text(package, name)
    value = decode_yaml_subset(text)
    return yaml.load(text, Loader=YAML_READER) if value is None else value  # noqa: S506 - a safe loader by either name
