"""The embedded price files: a zip of members that are compressed by LZMA, each of which a look-up reads whole.

A zip's own LZMA takes no options; with these the members are a tenth smaller. Reading one takes a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.boundary import read_packaged_bytes

if TYPE_CHECKING:
    import zipfile

DATA_FOLDER = "data"
ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold: the same bytes on every day
CACHED_MEMBERS = 24


def write_price_archive(path: Path, members: Mapping[str, str]) -> None:
    """Write a zip of texts, sorted by name: the same texts give the same bytes."""
    import lzma
    import zipfile

    # Digits and commas: a symbol depends on the four bits before it, and on no position.
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]
    new_path = path.with_suffix(".new")
    with zipfile.ZipFile(new_path, "w") as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, ZIP_TIME)
            info.external_attr = 0o644 << 16
            archive.writestr(info, lzma.compress(members[name].encode(), filters=filters))
    new_path.replace(path)


@lru_cache(maxsize=CACHED_MEMBERS)
def read_price_member(archive: str, name: str) -> str:
    """Return a member of an archive in ``catalog/data``, empty if it has none of that name."""
    import lzma

    try:
        return lzma.decompress(_open_archive(archive).read(name)).decode()
    except KeyError:
        return ""


def list_price_members(archive: str) -> list[str]:
    """Return the names of all members."""
    return _open_archive(archive).namelist()


@cache
def _open_archive(archive: str) -> zipfile.ZipFile:
    import io
    import zipfile

    return zipfile.ZipFile(io.BytesIO(read_packaged_bytes("gpufleet.catalog", f"{DATA_FOLDER}/{archive}")))
