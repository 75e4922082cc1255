"""Price bundles: the prices of a store as one dated file, which another site pulls.

A bundle is a zip: ``manifest.json`` (format, date, number of prices) and CSV files in the columns of the format
``plain``. Its SHA-256 is checked before anything of it is unpacked, and every size is bounded. The rows then go through
the checks of an import; a newer price that the store has stays.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpufleet.boundary import DocumentLimits, decode_json_object, make_printable, read_bytes, write_bytes
from gpufleet.catalog.prices.imports import PriceOrigin, gpufleet_format
from gpufleet.catalog.prices.imports.sheet import archive_errors, read_sheet
from gpufleet.catalog.prices.refresh.http_client import HttpClient
from gpufleet.catalog.prices.row import PriceRow, validate_price_row
from gpufleet.catalog.prices.store import ImportRunSummary, PriceStore
from gpufleet.errors import CheckFailed, InputError

FORMAT = "gpufleet-prices-1"
MANIFEST = "manifest.json"
MIB = 1 << 20
BUNDLE = DocumentLimits(bytes=32 * MIB)  # a zip of a million prices has about 20 MiB
MANIFEST_LIMITS = DocumentLimits(bytes=4096, depth=2, values=16)
MAX_MEMBERS, MAX_MEMBER_BYTES = 32, 24 * MIB
MEMBER_ROWS = 50_000  # some 8 MiB
RUN_SOURCE = "bundle"
MAX_REDIRECTS = 3  # what hosts of releases need
SHA256_HEX = re.compile(r"[0-9a-f]{64}")
COLUMNS = (
    "cloud", "region", "item", "purchase", "usd_per_hour", "as_of", "source", "unit", "confidence", "vcpus",
    "memory_gib", "arch", "gpu_model", "gpu_count", "gpu_memory_gib",
)  # fmt: skip
SELECT_ROWS = """
    SELECT c.kind, c.cloud, c.region, c.item, c.purchase, c.usd_per_hour, c.as_of, c.source, c.unit, c.confidence,
           m.vcpus, m.memory_gib, m.arch, m.accelerator, m.accelerators, m.accelerator_memory_gib
    FROM current c
    JOIN prices p ON p.cloud = c.cloud AND p.item = c.item AND p.region = c.region AND p.purchase = c.purchase
        AND p.dated = c.dated AND p.source = c.source AND p.upfront = 'none'
    LEFT JOIN machines m ON m.cloud = c.cloud AND m.item = c.item AND c.kind = 'machine'
    WHERE c.dated <> '' AND c.kind = ? ORDER BY c.cloud, c.item, c.region, c.purchase
"""


@dataclass(frozen=True)
class BundleManifest:
    """The date of a bundle's newest price, and how many prices it has."""

    as_of: date
    prices: int


@dataclass(frozen=True)
class WrittenBundle:
    """A bundle as it was written: what a site needs to pull it."""

    file: str
    as_of: str
    prices: int
    bytes: int
    sha256: str


def write_bundle(store: PriceStore, path: Path) -> WrittenBundle:
    """Write the store's dated prices, the same bytes for the same prices; raise CheckFailed if it has none."""
    members: dict[str, str] = {}
    newest, count = "", 0
    for kind in ("machine", "part"):
        of_kind = (row[1:] for row in store.connection.execute(SELECT_ROWS, (kind,)))
        while batch := list(islice(of_kind, MEMBER_ROWS)):
            members[f"{kind}-{len(members):02}.csv"] = _format_rows(kind, batch)
            newest = max(newest, *(str(row[5]).rpartition("/")[2] for row in batch))
            count += len(batch)
    if not count:
        raise CheckFailed("the store has no dated price", hint="gpufleet prices refresh reads prices")
    manifest = {"format": FORMAT, "as_of": _last_day(newest), "prices": count}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in {MANIFEST: json.dumps(manifest), **members}.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    if len(content) > BUNDLE.bytes or len(members) > MAX_MEMBERS:
        raise CheckFailed(
            "the store has more prices than a bundle may have", hint="use a store for each cloud"
        )
    write_bytes(path, content)
    digest = hashlib.sha256(content).hexdigest()
    return WrittenBundle(str(path), str(manifest["as_of"]), count, len(content), digest)


def _format_rows(kind: str, rows: Iterable[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(kind if name == "item" else name for name in COLUMNS)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue()


def _last_day(text: str) -> str:
    return text if text.count("-") == len("--") else f"{text}-01"


def fetch_bundle(source: str, sha256: str, client: HttpClient | None = None) -> bytes:
    """Return the bytes of a bundle from a file or an address; raise InputError if they do not have that SHA-256."""
    if not SHA256_HEX.fullmatch(sha256.lower()):
        raise InputError(
            "is not a SHA-256", where="--sha256", remedy="64 hexadecimal digits, as sha256sum prints"
        )
    where = make_printable(source)
    scheme = urlsplit(source).scheme
    if scheme in ("http", "https"):
        is_local = urlsplit(source).hostname in ("127.0.0.1", "localhost", "::1")
        if scheme == "http" and not is_local:
            raise InputError("must be an https address", where=where)
        content = (client or HttpClient(max_redirects=MAX_REDIRECTS)).get_bytes(source)
    else:
        content = read_bytes(Path(source), BUNDLE, where)
    digest = hashlib.sha256(content).hexdigest()
    if not hmac.compare_digest(digest, sha256.lower()):
        raise InputError(f"has the SHA-256 {digest}, expected {sha256.lower()}", where=where)
    return content


def read_manifest(content: bytes, where: str) -> BundleManifest:
    """Return the manifest of a bundle whose SHA-256 was checked; every size in its table is checked too."""
    with archive_errors(where), zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if len(members) > MAX_MEMBERS + 1 or any(each.file_size > MAX_MEMBER_BYTES for each in members):
            raise InputError("is larger than a price bundle may be", where=where)
        text = archive.read(MANIFEST) if archive.getinfo(MANIFEST).file_size <= MANIFEST_LIMITS.bytes else b""
    manifest = decode_json_object(text, f"{where}!{MANIFEST}", MANIFEST_LIMITS)
    if manifest.get("format") != FORMAT:
        found = make_printable(repr(manifest.get("format")), 40)
        raise InputError(f"expected the format {FORMAT}, got {found}", where=f"{where}!{MANIFEST}")
    try:
        as_of, prices = date.fromisoformat(manifest["as_of"]), int(manifest["prices"])
    except (KeyError, TypeError, ValueError):
        raise InputError(
            "must have as_of, a date, and prices, a number", where=f"{where}!{MANIFEST}"
        ) from None
    if as_of > datetime.now(UTC).date():
        raise InputError(f"{as_of} is in the future", where=f"{where}!{MANIFEST}", key="as_of")
    return BundleManifest(as_of, prices)


def import_bundle(
    store: PriceStore, content: bytes, where: str, accept: Iterable[str] = (), *, allow_older: bool = False
) -> tuple[BundleManifest, ImportRunSummary]:
    """Import a bundle whose SHA-256 was checked; raise InputError if an earlier one was of a later day."""
    manifest = read_manifest(content, where)
    last = find_last_bundle_day(store)
    if last and manifest.as_of < last and not allow_older:
        raise InputError(
            f"is of {manifest.as_of}, older than the bundle of {last} that is there",
            where=where,
            remedy="pass --allow-older to import it",
        )
    accepted = sorted(set(accept))
    key = ",".join([manifest.as_of.isoformat(), hashlib.sha256(content).hexdigest(), *accepted])
    run = store.begin_or_resume_run(RUN_SOURCE, key)
    if run.finished_at is None:
        count = 0
        for name, rows in _iterate_members(content, where):
            count += len(rows)
            if name not in run.batches:
                run = store.stage_batch(name, rows, run)
        if count != manifest.prices:
            store.delete_unfinished_run(run)
            raise InputError(f"contains {count} prices, its manifest says {manifest.prices}", where=where)
    return manifest, store.commit_run(run, accepted)


def find_last_bundle_day(store: PriceStore) -> date | None:
    """Return the day of the newest bundle that the store has, None without one."""
    query = "SELECT max(substr(key, 1, 10)) FROM runs WHERE source = ? AND finished_at IS NOT NULL"
    day = store.connection.execute(query, (RUN_SOURCE,)).fetchone()[0]
    return date.fromisoformat(day) if day else None


def _iterate_members(content: bytes, where: str) -> Iterator[tuple[str, list[PriceRow]]]:
    with archive_errors(where), zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            if member.filename == MANIFEST:
                continue
            name = make_printable(member.filename, 80)
            sheet = read_sheet(f"{where}!{name}", name, "", archive.read(member))
            rows = gpufleet_format.read_price_rows(sheet, PriceOrigin())
            yield name, list(map(validate_price_row, rows))
