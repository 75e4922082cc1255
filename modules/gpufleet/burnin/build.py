"""Build the agent as one zipapp file, byte for byte the same wherever it is built."""

from __future__ import annotations

import zipfile
from importlib import resources
from pathlib import Path

PACKAGE = "burnin_agent"
SHEBANG = b"#!/usr/bin/env python3\n"
ENTRY = "import sys\nfrom burnin_agent.main import main\nsys.exit(main())\n"
# Compiled kernels, and those that the node compiles; their sources stay here.
KERNEL_FILES = (".ptx", ".spv", ".hip")
# The zip format's first moment: a file's own time would change the bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


def read_agent_files() -> dict[str, bytes]:
    """Return what goes into the zipapp, by name."""
    agent = resources.files("gpufleet.burnin") / "agent"
    files = {
        f"{PACKAGE}/{folder}{item.name}": item.read_bytes()
        for folder in ("", "kernels/")
        for item in (agent / folder).iterdir()
        if item.name.endswith((".py", *KERNEL_FILES))
    }
    return {"__main__.py": ENTRY.encode(), **dict(sorted(files.items()))}


def build_agent_zipapp(path: Path) -> Path:
    """Write the agent to ``path``, executable; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(SHEBANG)
        # Stored, not compressed: compressed bytes differ between zlib versions.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in read_agent_files().items():
                entry = zipfile.ZipInfo(name, EPOCH)
                entry.external_attr = 0o644 << 16
                # Fixed, where Python would write the system's own.
                entry.create_system = 3
                archive.writestr(entry, content)
    path.chmod(0o755)
    return path
