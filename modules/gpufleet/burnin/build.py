"""Build the agent as one zipapp file, byte for byte the same wherever it is built."""

from __future__ import annotations

import zipfile
from importlib import resources
from pathlib import Path

from gpufleet.burnin.check_definition import list_agent_checks
from gpufleet.burnin.kernel_rule import KernelRule, list_agent_rules

PACKAGE = "burnin_agent"
SHEBANG = b"#!/usr/bin/env python3\n"
ENTRY = "import sys\nfrom burnin_agent.agent.main import main\nsys.exit(main())\n"
# For a program that drives the agent in its own process: another host, other files.
PUBLIC_MODULES = "from .agent import host, main\n"
# Compiled kernels, and those that the node compiles; their sources stay here.
KERNEL_FILES = (".ptx", ".spv", ".hip")
# The zip format's first moment: a file's own time would change the bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


def read_agent_files(site_rules: tuple[KernelRule, ...] = ()) -> dict[str, bytes]:
    """Return what goes into the zipapp, by name: the agent and each check's `measure.py`, in folders as here."""
    room, table = resources.files("gpufleet.burnin"), list_agent_checks()
    files = {
        f"{folder}{item.name}": item
        for folder in ("agent/", "agent/kernels/")
        for item in (room / folder).iterdir()
        if item.name.endswith((".py", *KERNEL_FILES))
    }
    files |= {f"checks/{name}/measure.py": room / "checks" / name / "measure.py" for name in table}
    contents = {name: item.read_bytes() for name, item in files.items()}
    contents["agent/check_table.py"] = f"CHECK_TABLE = {table!r}\n".encode()
    contents["agent/kernel_words.py"] = f"KERNEL_RULES = {list_agent_rules(site_rules)!r}\n".encode()
    for package in ("", "checks/", *(f"checks/{name}/" for name in table)):
        contents[f"{package}__init__.py"] = b""
    contents["__init__.py"] = PUBLIC_MODULES.encode()
    return {
        "__main__.py": ENTRY.encode(),
        **{f"{PACKAGE}/{name}": contents[name] for name in sorted(contents)},
    }


def build_agent_zipapp(path: Path, site_rules: tuple[KernelRule, ...] = ()) -> Path:
    """Write the agent to ``path``, executable; return the path. ``site_rules``: the site's rules of the kernel log."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(SHEBANG)
        # Stored, not compressed: compressed bytes differ between zlib versions.
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in read_agent_files(site_rules).items():
                entry = zipfile.ZipInfo(name, EPOCH)
                entry.external_attr = 0o644 << 16
                # Fixed, where Python would write the system's own.
                entry.create_system = 3
                archive.writestr(entry, content)
    path.chmod(0o755)
    return path
