"""Names and units of the parts that a refresh reads, as ``data/refresh_<cloud>.csv`` lists them.

A row says which entries of a cloud's price list are a part. ``part`` is a name or a template: ``redis:{tier}_{size}``.
``per`` is ``time`` for what bills by hour or month, ``use`` for what bills by the amount used up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

from gpufleet.catalog import data_file
from gpufleet.catalog.cloud import CLOUDS

Per = Literal["time", "use"]
PLACEHOLDER = re.compile(r"\\\{(\w+)\\\}")
GROUP = re.compile(r"\(\?P<(\w+)>")
PATTERN_COLUMNS = ("usage", "product", "sku", "description")


@dataclass(frozen=True)
class PartName:
    """The name of a part, or the template of a series of names, with its unit."""

    template: str
    unit: str
    per: Per
    groups: tuple[tuple[str, str], ...] = ()  # name and pattern of what the placeholders stand for

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return the pattern of all names of the series."""
        patterns = dict(self.groups)
        return re.compile(
            PLACEHOLDER.sub(lambda match: f"(?:{patterns[match[1]]})", re.escape(self.template)),
            re.IGNORECASE,
        )

    def format_name(self, groups: dict[str, str | None], dropped_characters: str = "") -> str:
        """Return the name with the matched groups, in lower case and without the dropped characters."""
        table = str.maketrans("", "", dropped_characters)
        return self.template.format(**{
            key: (text or "").lower().translate(table) for key, text in groups.items()
        })  # fmt: skip


def load_rule_rows(cloud: str) -> list[data_file.Row]:
    """Return the rows of a cloud's rules."""
    return data_file.load_catalog_rows(f"refresh_{cloud}.csv")


def read_part_name(row: data_file.Row) -> PartName:
    """Return the name that a rule's row gives to its parts."""
    texts = (row[column] for column in PATTERN_COLUMNS if column in row)
    groups = tuple(group for text in texts for group in _find_groups(text))
    return PartName(row["part"], row["unit"], row.get_choice("per", get_args(Per)), groups)


def _find_groups(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and pattern of the named groups of a regular expression."""
    for match in GROUP.finditer(text):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0) if text[end - 1] != "\\" else 0
            end += 1
        yield match[1], text[match.end() : end - 1]


@cache
def list_part_names(cloud: str) -> tuple[PartName, ...]:
    """Return the names of all rules of a cloud."""
    return tuple(dict.fromkeys(map(read_part_name, load_rule_rows(cloud))))


def find_rule_unit(part: str) -> str | None:
    """Return the unit of a part that a rule of some cloud names, None for another part."""
    return next((unit for pattern, unit in _list_patterns() if pattern.fullmatch(part)), None)


@cache
def _list_patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((name.pattern, name.unit) for cloud in CLOUDS for name in list_part_names(cloud))


def find_first_paid(amounts_by_start: Mapping[float, float]) -> float | None:
    """Return the price of the first tier that is not free; None if all are."""
    return next((usd for _, usd in sorted(amounts_by_start.items()) if usd > 0), None)
