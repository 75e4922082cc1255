"""Runs on a small disk: create a price store at each level of free space, then with enough; print what came of it."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from full_disk import fill_disk
from gpufleet.catalog.prices.store import open_store_connection
from gpufleet.errors import EnvironmentFault


def main():
    """Print the result of each level as a line of JSON."""
    folder = Path(sys.argv[1]) / "state"
    for leave in range(0, 160 * 1024, 8192):
        folder.mkdir()
        error = None
        with fill_disk(folder.parent, leave):
            try:
                open_store_connection(folder / "prices.db", create=True).close()
            except EnvironmentFault as fault:
                error = [str(fault), fault.hint]
        connection = open_store_connection(folder / "prices.db", create=True)
        after = connection.execute("PRAGMA integrity_check").fetchone()[0]
        connection.close()
        shutil.rmtree(folder)
        print(json.dumps({"leave": leave, "error": error, "after": after}))


if __name__ == "__main__":
    main()
