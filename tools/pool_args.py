"""Write modules/gpufleet/cloud/pool_args.py from the spec's models: `python -m tools.pool_args` (a test says when).

An editor completes and a type checker checks what ``GpuPool`` takes only if the keys are in typed dictionaries. Their
names end like those of Pulumi's own SDKs.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpufleet.fleet import FleetSpec

MODULE = Path(__file__).parents[1] / "modules/gpufleet/cloud/pool_args.py"
SUFFIX = "ArgsDict"
# What a pool of a program of its own does not take from a fleet, and what is GpuPool's first argument.
WITHOUT = ("pools", "workstations", "racks", "budget_usd_per_month", "accounts", "account", "name")
HEAD = '''"""What ``GpuPool`` takes, as typed dictionaries.

`python -m tools.pool_args` writes this from the spec's models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, Required, TypedDict
'''
PLAIN = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "array": "Sequence[Any]",
}


def format_module() -> str:
    """Return the module's text, formatted."""
    schema = FleetSpec.model_json_schema()
    definitions = schema["$defs"]
    pool = definitions.pop("Pool")
    arguments = {
        "description": "The keyword arguments of ``GpuPool``: keys of a pool, and those of a fleet that it needs.",
        "required": [*pool["required"], *schema["required"]],
        "properties": pool["properties"] | schema["properties"],
    }
    used = _find_used(
        {key: value for key, value in arguments["properties"].items() if key not in WITHOUT}, definitions
    )
    classes = [_format_class(name, _find_object(definitions[name]), definitions) for name in sorted(used)]
    text = "\n\n".join([HEAD, *classes, _format_class("GpuPool", arguments, definitions)])
    formatted = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(MODULE), "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        cwd=MODULE.parents[3],
    )
    return formatted.stdout


def _find_used(schema: Any, definitions: Mapping[str, Any]) -> set[str]:
    """Return the names of the models that a schema refers to, directly or not."""
    if isinstance(schema, list):
        return {name for item in schema for name in _find_used(item, definitions)}
    if not isinstance(schema, dict):
        return set()
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {name} | _find_used(definitions[name], definitions)
    return {
        name
        for key, item in schema.items()
        if key != "discriminator"
        for name in _find_used(item, definitions)
    }


def _find_object(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the mapping of a model's forms: some have a short form beside it."""
    return next((form for form in schema.get("anyOf", ()) if "properties" in form), schema)


def _format_class(name: str, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    lines = [f"class {name}{SUFFIX}(TypedDict, total=False):", *_format_docstring(schema["description"]), ""]
    required = schema.get("required", ())
    for key, value in schema["properties"].items():
        if key in WITHOUT and name == "GpuPool":
            continue
        kind = _format_type(value, definitions)
        lines.append(f"    {key}: {f'Required[{kind}]' if key in required else kind}")
        lines += _format_docstring(value["description"]) if "description" in value else []
    return "\n".join(lines)


def _format_docstring(text: str) -> list[str]:
    parts = textwrap.wrap(f'"""{text}', 105) if "\n" not in text else f'"""{text}'.splitlines()
    parts += ['"""'] if len(parts) > 1 else []
    return [textwrap.indent(part, "    ") for part in parts] if len(parts) > 1 else [f'    {parts[0]}"""']


def _format_type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the type of what a schema accepts."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        short = [form for form in definitions[name].get("anyOf", ()) if "properties" not in form]
        return " | ".join([*(_format_type(form, definitions) for form in short), f"{name}{SUFFIX}"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(_format_type(each, definitions) for each in schema[key]))
    if "enum" in schema or "const" in schema:
        return f"Literal[{', '.join(map(repr, schema.get('enum') or [schema['const']]))}]"
    kind = schema["type"]
    if isinstance(kind, list):
        return " | ".join(_format_type({"type": each}, definitions) for each in kind)
    if kind == "array" and "items" in schema:
        return f"Sequence[{_format_type(schema['items'], definitions)}]"
    if kind == "object":
        values = [*schema.get("patternProperties", {}).values()]
        return f"Mapping[str, {_format_type(values[0], definitions) if values else 'Any'}]"
    return "str | date" if schema.get("format") == "date" else PLAIN[kind]


if __name__ == "__main__":
    MODULE.write_text(format_module(), encoding="utf-8")
