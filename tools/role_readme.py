"""Write roles' READMEs from their argument specs: `python -m tools.role_readme [ROLE…]` (a test says when)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROLES = Path(__file__).parents[1] / "modules/ansible_collections/gpufleet/fleet/roles"
HEADER = "<!-- Written by tools/role_readme.py from meta/argument_specs.yml; change that instead. -->"


def readme(role: Path) -> str:
    """Return a role's README."""
    entries = YAML(typ="safe").load(role / "meta/argument_specs.yml")["argument_specs"]
    (spec,) = entries.values()
    parts = [f"# {role.name}", HEADER, f"{spec['short_description']}.", *spec["description"]]
    if spec["options"]:
        table = ["| variable | type | default | what it does |", "|---|---|---|---|", *rows(spec["options"])]
        parts.append("\n".join(table))
    return "\n\n".join(parts) + "\n"


def rows(options: dict[str, Any], prefix: str = "") -> list[str]:
    """Return a row for each option, and for each option of its entries."""
    table_rows = []
    for name, option in options.items():
        default = "required" if option.get("required") else shown(option.get("default"))
        choices = (
            f" One of {', '.join(f'`{choice}`' for choice in option['choices'])}."
            if "choices" in option
            else ""
        )
        text = f"{option['description']}{choices}"
        table_rows.append(f"| `{prefix}{name}` | {kind(option)} | {default} | {text} |")
        table_rows += rows(option.get("options", {}), f"{prefix}{name}[].")
    return table_rows


def kind(option: dict[str, Any]) -> str:
    """Return an option's type as text."""
    return f"list of {option['elements']}" if option["type"] == "list" else str(option["type"])


def shown(default: Any) -> str:
    """Return a default as a cell: a sentence as it is, a value as code."""
    if isinstance(default, str) and " " in default:
        return default
    return f"`{', '.join(map(str, default)) or '[]'}`" if isinstance(default, list) else f"`{default}`"


def main(names: list[str]) -> None:
    """Write those that are named, else all of them."""
    for role in (
        map(ROLES.joinpath, names) if names else sorted(path for path in ROLES.iterdir() if path.is_dir())
    ):
        (role / "README.md").write_text(readme(role))


if __name__ == "__main__":
    main(sys.argv[1:])
