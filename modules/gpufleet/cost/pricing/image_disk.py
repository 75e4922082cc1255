"""The disk that an image sets where a program declares no size: ``data/image_disks.csv``.

``image`` is a pattern of the image's name in small letters; the first row of a cloud that matches counts, and its last
row is for images whose id tells nothing. ``gib`` is the expected size and ``most_gib`` the largest; ``types`` are the
volume types that such images set, the expected one first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal

from gpufleet.boundary import read_table
from gpufleet.cost.formatting import format_number
from gpufleet.cost.money import Range


@dataclass(frozen=True)
class ImageDisk:
    """One row of the table."""

    cloud: str
    image: str
    gib: Decimal
    most_gib: Decimal
    types: tuple[str, ...]
    as_of: date
    confidence: Literal["high", "medium", "low"]
    source: str

    @property
    def sizes(self) -> Range:
        """Return the size in GiB, a range where the image is not known."""
        return Range(self.gib, self.gib, self.most_gib)

    @property
    def note(self) -> str:
        """Return where the size is from, for the report."""
        most = "" if self.most_gib == self.gib else f" to {format_number(self.most_gib)}"
        return f"size of its image: {format_number(self.gib)}{most} GiB"


@cache
def find_image_disk(cloud: str, image: str) -> ImageDisk:
    """Return the disk of an image by all that is known of its name, such as its id, platform and publisher."""
    name = image.lower()
    return next(
        row
        for row in read_table(ImageDisk, "gpufleet.cost", "data/image_disks.csv")
        if row.cloud == cloud and fnmatchcase(name, row.image)
    )
