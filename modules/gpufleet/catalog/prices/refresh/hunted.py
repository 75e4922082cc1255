"""gpuhunt's published catalogue: what dstack collects from the clouds' APIs, open to all, one archive a cloud.

Its files are read here, not through the package: that would load every provider, with neither a time limit nor a
second try. Regions cannot be asked for apart, so a region's rows are taken out of its cloud's archive.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpufleet.boundary import LARGE_DOCUMENT
from gpufleet.catalog.prices.imports import gpuhunt
from gpufleet.catalog.prices.imports.sheet import BAD_ARCHIVE, Origin, sheets
from gpufleet.catalog.prices.refresh.feed import Batch, Scope, Unreachable, sound
from gpufleet.catalog.prices.refresh.web import Web
from gpufleet.catalog.prices.row import PriceRow
from gpufleet.errors import InputError

BASE = "https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com/v3"  # gpuhunt 0.1.34, _internal/catalog.py
VERSION = re.compile(r"[\w.-]{1,64}\Z")
DAY = re.compile(r"(20\d\d)-?([01]\d)-?([0-3]\d)")
ENOUGH = LARGE_DOCUMENT.bytes


@dataclass
class Hunted:
    """The source, one for each cloud."""

    cloud: str
    web: Web = field(default_factory=Web)
    base: str = BASE
    _rows: Sequence[PriceRow] | None = None

    @property
    def name(self) -> str:
        """Return the source's name."""
        return f"gpuhunt-{self.cloud}"

    def read(self, region: str, scope: Scope) -> Batch:  # noqa: ARG002 - it says itself which day it is of
        """Return on-demand and spot prices of a region."""
        if self._rows is None:
            self._rows = self._all()
        return sound(row for row in self._rows if row.region == region)

    def _all(self) -> list[PriceRow]:
        version = self.web.content(f"{self.base}/{self.cloud}/version").decode("utf-8", "replace").strip()
        if not VERSION.match(version):
            raise Unreachable(f"{self.name}: {version[:40]!r} is no version")
        archive = self.web.content(f"{self.base}/{self.cloud}/{version}/catalog.zip")
        day = DAY.match(version)
        origin = Origin(self.cloud, "-".join(day.groups()) if day else "", f"gpuhunt;{version}")
        try:
            content = _member(archive, f"{self.cloud}.csv")
            (sheet,) = sheets(Path(f"{self.cloud}.csv"), content)
            return list(gpuhunt.read(sheet, origin))
        except (InputError, *BAD_ARCHIVE) as error:
            raise Unreachable(f"{self.name}: its archive cannot be read: {error}") from None


def _member(archive: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as held:
        if held.getinfo(name).file_size > ENOUGH:
            raise zipfile.BadZipFile("too large")
        return held.read(name)
