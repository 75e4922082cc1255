"""Write the platforms in roles' metadata from the table of operating systems: `python -m tools.role_platforms [ROLE…]`.

A test says when it is due.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.system_data import list_supported_systems

ROLES = Path(__file__).parents[1] / "modules/ansible_collections/gpufleet/fleet/roles"
BLOCK = re.compile(r"^(?:  # Written by .*\n)?  platforms:\n(?:    .*\n)*", re.MULTILINE)
HEADER = "  # Written by tools/role_platforms.py from the table of operating systems; change that instead.\n"


def update_metadata(role: Path) -> str:
    """Return a role's metadata with the platforms that it supports."""
    text = (role / "meta/main.yml").read_text()
    return BLOCK.sub(lambda _: HEADER + format_platforms(role.name), text, count=1)


def format_platforms(role: str) -> str:
    """Return the platforms of a role in Ansible Galaxy's terms; Raspberry Pi OS has no name there."""
    versions: dict[str, list[str]] = {}
    for system in list_supported_systems(role):
        if system.platform:
            versions.setdefault(system.platform, []).append(system.platform_version)
    lines = [
        f"    - name: {name}\n      versions: [{', '.join(map(quote_number, listed))}]\n"
        for name, listed in versions.items()
    ]
    return "  platforms:\n" + "".join(lines)


def quote_number(version: str) -> str:
    """Return a version as YAML text: Galaxy wants `9` as a string."""
    return f'"{version}"' if version.isdigit() else version


def main(names: list[str]) -> None:
    """Write those that are named, else all of them."""
    for role in (
        map(ROLES.joinpath, names) if names else sorted(path for path in ROLES.iterdir() if path.is_dir())
    ):
        (role / "meta/main.yml").write_text(update_metadata(role))


if __name__ == "__main__":
    main(sys.argv[1:])
