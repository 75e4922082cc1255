"""The files of billing exports: single files, and folders as the providers deliver them.

* AWS Data Exports: ``data/BILLING_PERIOD=2026-10/`` with parts, and ``metadata/`` with a manifest of them. Every run
  has a folder of its own in the period's, unless the export overwrites.
* Azure: ``20261001-20261031/RUN/`` with parts and a ``manifest.json``.
* Google: the shards of a BigQuery table.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gpufleet.boundary import OPERATOR_FILE, decode_json, describe_read_error, make_printable, read_bytes
from gpufleet.errors import InputError

MAX_FILES = 10_000
BLOCK_BYTES = 1 << 20
DATA_FILE = re.compile(r"(?i).*\.(csv|json|jsonl|ndjson|parquet)(\.gz)?")
MANIFEST = re.compile(r"(?i).*manifest\.json")
MANIFEST_LISTS = ("dataFiles", "reportKeys", "blobs")  # of AWS's two kinds of export, and of Azure's
PERIOD_FOLDER = re.compile(r"(?i)billing_period=.*|\d{8}-\d{8}")


def list_bill_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files, with folders replaced by the exports in them; the same file twice is an InputError."""
    files = [file for path in paths for file in (_list_folder(path) if path.is_dir() else [path])]
    _check_runs(files)
    _check_duplicates(files)
    return files


def _list_folder(root: Path) -> list[Path]:
    name = make_printable(root)
    paths = sorted(_walk(root, name))
    manifests = [path for path in paths if MANIFEST.fullmatch(path.name)]
    files = [path for path in paths if DATA_FILE.fullmatch(path.name) and path not in manifests]
    if not files:
        raise InputError(
            "has no export in it", where=name, remedy="give a folder of CSV, JSON or Parquet files"
        )
    for manifest in manifests:
        _check_manifest(manifest, {path.name for path in files})
    return files


def _walk(root: Path, name: str) -> Iterator[Path]:
    count = 0
    for folder, _, file_names in os.walk(root):
        for file_name in file_names:
            count += 1
            if count > MAX_FILES:
                raise InputError(
                    f"has more than {MAX_FILES:,} files", where=name, remedy="give a smaller folder"
                )
            yield Path(folder, file_name)


def _check_runs(files: Iterable[Path]) -> None:
    """Refuse two runs of one export for one period: each has all rows of the period.

    An export that overwrites has its parts in the period's folder itself: they are a run too. The folders are those
    of the real paths, however the files are given.
    """
    runs: dict[Path, set[str]] = defaultdict(set)
    for folder in {Path(os.path.realpath(file)).parent for file in files}:
        if PERIOD_FOLDER.fullmatch(folder.name):
            runs[folder].add("")
        elif PERIOD_FOLDER.fullmatch(folder.parent.name):
            runs[folder.parent].add(folder.name)
    for period, names in runs.items():
        if len(names) > 1:
            listed = ", ".join(
                make_printable(each, 60) or "parts without a run" for each in sorted(names)[:5]
            )
            problem = f"has {len(names)} runs of one export, each with all rows: {listed}"
            raise InputError(
                problem, where=make_printable(period), remedy="give only the files of the newest run"
            )


def _check_manifest(path: Path, names: set[str]) -> None:
    """Refuse a folder in which a part is missing that the provider's manifest lists."""
    place = make_printable(path)
    content = decode_json(read_bytes(path, OPERATOR_FILE), place, OPERATOR_FILE)
    lists = [content.get(key) for key in MANIFEST_LISTS] if isinstance(content, dict) else []
    entries = [each for listed in lists if isinstance(listed, list) for each in listed]
    paths = [each.get("blobName") if isinstance(each, dict) else each for each in entries]
    parts = [each.rpartition("/")[2] for each in paths if isinstance(each, str)]
    missing = [part for part in parts if part not in names]
    if missing and len(missing) < len(parts):  # of a period that was not copied, every part is missing
        raise InputError(
            f"{make_printable(missing[0], 120)} is missing",
            where=place,
            remedy="copy all parts of the export",
        )


def _check_duplicates(files: Sequence[Path]) -> None:
    """Refuse a file that is given twice, also as a copy."""
    by_size: dict[int, list[Path]] = defaultdict(list)
    for file in files:
        if file.is_file():
            by_size[file.stat().st_size].append(file)
    first_by_digest: dict[bytes, Path] = {}
    for same_size in by_size.values():
        for file in same_size if len(same_size) > 1 else ():
            digest = _compute_digest(file)
            if first := first_by_digest.get(digest):
                problem = (
                    "is given twice" if file.samefile(first) else f"is a copy of {make_printable(first)}"
                )
                raise InputError(problem, where=make_printable(file), remedy="give each file once")
            first_by_digest[digest] = file


def _compute_digest(path: Path) -> bytes:
    digest = hashlib.blake2b()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise InputError(
            f"cannot be read: {describe_read_error(error)}", where=make_printable(path)
        ) from None
    return digest.digest()
