"""Write ``catalog/data/price_tables.zip`` from the reviewed lists: ``python -m tools.price_lists``."""

from __future__ import annotations

from gpufleet.catalog.price_archive import write_price_archive
from tools.price_lists import ARCHIVE, build_table_members


def main() -> None:
    """Write the archive and print its size."""
    members = build_table_members()
    write_price_archive(ARCHIVE, members)
    rows = sum(text.count("\n") - 1 for name, text in members.items() if "/" in name)
    print(f"{ARCHIVE.name}: {rows} prices, {ARCHIVE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
