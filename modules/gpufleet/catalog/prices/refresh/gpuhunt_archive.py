"""gpuhunt's published catalogue: prices that dstack collects from the clouds' APIs, one public archive per cloud.

The files are read without the gpuhunt package, which loads every provider and has no timeout or retry. An archive
contains all regions of a cloud; a region's rows are selected from it.
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
from gpufleet.catalog.prices.imports.sheet import ARCHIVE_ERRORS, PriceOrigin, read_price_sheets
from gpufleet.catalog.prices.refresh.http_client import HttpClient
from gpufleet.catalog.prices.refresh.source import (
    RefreshScope,
    RegionPrices,
    SourceUnavailable,
    build_region_prices,
)
from gpufleet.catalog.prices.row import PriceRow
from gpufleet.errors import InputError

BASE_URL = "https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com/v3"  # gpuhunt 0.1.34, _internal/catalog.py
VERSION_PATTERN = re.compile(r"[\w.-]{1,64}\Z")
DAY_PATTERN = re.compile(r"(20\d\d)-?([01]\d)-?([0-3]\d)")
MAX_MEMBER_BYTES = LARGE_DOCUMENT.bytes


@dataclass
class GpuhuntArchiveSource:
    """The source, one for each cloud."""

    cloud_name: str
    http: HttpClient = field(default_factory=HttpClient)
    base_url: str = BASE_URL
    _rows: Sequence[PriceRow] | None = None

    @property
    def source_name(self) -> str:
        """Return the source's name."""
        return f"gpuhunt-{self.cloud_name}"

    def fetch_region_prices(self, region: str, scope: RefreshScope) -> RegionPrices:  # noqa: ARG002 - the archive states its own day
        """Return on-demand and spot prices of a region."""
        if self._rows is None:
            self._rows = self._read_archive()
        return build_region_prices(row for row in self._rows if row.region == region)

    def _read_archive(self) -> list[PriceRow]:
        version = (
            self.http.get_bytes(f"{self.base_url}/{self.cloud_name}/version")
            .decode("utf-8", "replace")
            .strip()
        )
        if not VERSION_PATTERN.match(version):
            raise SourceUnavailable(f"{self.source_name}: {version[:40]!r} is not a version")
        archive = self.http.get_bytes(f"{self.base_url}/{self.cloud_name}/{version}/catalog.zip")
        day = DAY_PATTERN.match(version)
        origin = PriceOrigin(self.cloud_name, "-".join(day.groups()) if day else "", f"gpuhunt;{version}")
        try:
            content = _read_member(archive, f"{self.cloud_name}.csv")
            (sheet,) = read_price_sheets(Path(f"{self.cloud_name}.csv"), content)
            return list(gpuhunt.read_price_rows(sheet, origin))
        except (InputError, *ARCHIVE_ERRORS) as error:
            raise SourceUnavailable(f"{self.source_name}: its archive cannot be read: {error}") from None


def _read_member(archive: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as archive_file:
        if archive_file.getinfo(name).file_size > MAX_MEMBER_BYTES:
            raise zipfile.BadZipFile("too large")
        return archive_file.read(name)
