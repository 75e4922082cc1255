"""Test that only the package `boundary` calls a decoder of Python or of a library."""

from __future__ import annotations

import ast
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

MODULES = Path(__file__).resolve().parents[2] / "modules"
# Whole modules that decode, and single functions of modules that also do other things.
DECODERS = frozenset(
    {
        "configparser", "csv", "defusedxml", "marshal", "pickle", "plistlib", "ruamel", "shelve", "tomllib", "yaml"
    }
)  # fmt: skip
# Writers, types and errors of those modules, which decode nothing.
HARMLESS = frozenset(
    {
        "csv.writer",
        "ruamel.yaml.YAML",  # its method `load` is looked for below
        "ruamel.yaml.comments",
        "ruamel.yaml.error",
        "ruamel.yaml.scalarint",
        "ruamel.yaml.scalarstring",
        "xml.etree.ElementTree.Element",
        "xml.etree.ElementTree.SubElement",
        "xml.etree.ElementTree.indent",
        "xml.etree.ElementTree.tostring",
    }
)
CALLS = frozenset(
    {
        "ast.literal_eval",
        "eval",
        "json.JSONDecoder",
        "json.load",
        "json.loads",
        "model_validate_json",
        "validate_json",
        "yaml.safe_load",
    }
)
ALLOWED = {
    "ansible_collections/gpufleet/fleet/plugins/module_utils/": "runs on the host, with its Python alone",
    "ansible_collections/gpufleet/fleet/plugins/modules/": "runs on the host, with its Python alone",
    "ansible_collections/gpufleet/fleet/roles/": "runs on the host, with its Python alone",
    "gpufleet/boundary/": "the gate itself",
    "gpufleet/burnin/agent/": "runs on the node: the standard library only",
    "gpufleet/burnin/checks/*/measure.py": "the same",
    "gpufleet/cost/inputs/program/child.py": "runs in another Python, confined; reads its project and its jobs",
    "gpufleet/cost/inputs/program/monitor.py": "the same; reads its own table",
    "gpufleet/cost/inputs/program/language/yaml_program.py": "the same; and settings that child.py wrote",
    "gpufleet/rehearsal/launcher.py": "starts with `python -I -S`, reads what `rehearse up` wrote",
    "gpufleet/remote/shards/node_playbook.py": "runs on a mesh node: the standard library only",
    "gpufleet/rehearsal/packages/server.py": "starts with `python -I -S`, reads what `rehearse up` wrote",
}


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Return what each local name of a module means, as a dotted path."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """Return an expression such as ``json.loads`` as a dotted path, with imports resolved."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "eval" if node.id == "eval" else "")  # others are local names
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value, names)}.{node.attr}"
    return ""


def is_decoder(path: str, attribute: str) -> bool:
    if path in HARMLESS or any(path.startswith(f"{decoder}.") for decoder in HARMLESS - {"ruamel.yaml.YAML"}):
        return False
    if path in CALLS or attribute in {"model_validate_json", "validate_json"}:
        return True
    return path.partition(".")[0] in DECODERS or path.startswith("xml.")


def find_decoders(text: str) -> list[tuple[int, str]]:
    """Return line and name of every use of a decoder in a module's source."""
    tree = ast.parse(text)
    names = imported_names(tree)
    decoders: set[tuple[int, str]] = set()
    makers = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and dotted(node.value.func, names) == "ruamel.yaml.YAML"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            path = dotted(node, names)
            if is_decoder(path, getattr(node, "attr", "")):
                decoders.add((node.lineno, path))
        if isinstance(node, ast.Attribute) and node.attr in {"load", "load_all"}:
            is_yaml_factory = (
                isinstance(node.value, ast.Call) and dotted(node.value.func, names) == "ruamel.yaml.YAML"
            )
            if is_yaml_factory or (isinstance(node.value, ast.Name) and node.value.id in makers):
                decoders.add((node.lineno, "ruamel.yaml.YAML().load"))
    # `import csv` alone binds a name that nothing may use yet.
    return sorted(
        decoder for decoder in decoders if decoder[1] not in {"yaml", "csv", "xml.etree.ElementTree"}
    )


def modules() -> list[tuple[str, str]]:
    paths = sorted(MODULES.rglob("*.py"))
    return [(str(path.relative_to(MODULES)), path.read_text(encoding="utf-8")) for path in paths]


def find_exceptions(name: str) -> list[str]:
    """Return the entries of ALLOWED that fit a module: its path, a folder, or a pattern."""
    return [pattern for pattern in ALLOWED if fnmatchcase(name, f"{pattern}*")]


def test_only_the_boundary_package_decodes_outside_data():
    calls = [
        f"modules/{name}:{line}: {what}"
        for name, text in modules()
        if not find_exceptions(name)
        for line, what in find_decoders(text)
    ]
    assert not calls, "decode through gpufleet.boundary:\n" + "\n".join(calls)


def test_each_exception_of_the_decoder_check_is_needed():
    excepted = [(patterns, text) for name, text in modules() if (patterns := find_exceptions(name))]
    used = {pattern for patterns, text in excepted if find_decoders(text) for pattern in patterns}
    present = {pattern for patterns, _ in excepted for pattern in patterns}
    # A file that is gone needs no exception either, but may be on its way in another branch.
    assert present - used == set()


@pytest.mark.parametrize(
    "source",
    [
        "import json\njson.loads('1')",
        "import json as j\nj.load(f)",
        "from json import loads\nloads('1')",
        "from json import loads as read\nread('1')",
        "import json\nread = json.loads",
        "import yaml\nyaml.load(t, Loader=yaml.SafeLoader)",
        "from yaml import safe_load\nsafe_load('a')",
        "from ruamel.yaml import YAML\nYAML(typ='safe').load(t)",
        "from ruamel.yaml import YAML\nreader = YAML()\nreader.load(t)",
        "import ruamel.yaml\nruamel.yaml.YAML().load(t)",
        "import csv\ncsv.DictReader(f)",
        "from csv import reader\nreader(f)",
        "import xml.etree.ElementTree as ET\nET.fromstring(t)",
        "from xml.etree import ElementTree\nElementTree.parse(f)",
        "from xml.dom import minidom\nminidom.parseString(t)",
        "import tomllib\ntomllib.load(f)",
        "import pickle\npickle.loads(b)",
        "import configparser\nconfigparser.ConfigParser()",
        "import plistlib\nplistlib.loads(b)",
        "eval('1')",
        "import ast\nast.literal_eval('1')",
        "Model.model_validate_json(t)",
        "def f():\n    import json\n    return json.loads('1')",
    ],
)
def test_decoder_check_finds_each_way_to_decode(source):
    assert find_decoders(source)


@pytest.mark.parametrize(
    "source",
    [
        "import json\njson.dumps(1)",
        "import json\ntry: pass\nexcept json.JSONDecodeError: pass",
        "import csv\ncsv.writer(f)",
        "from ruamel.yaml import YAML\nwriter = YAML()\nwriter.dump(1, f)",
        "from xml.etree.ElementTree import Element\nElement('a')",
        "from gpufleet.boundary import decode_json\ndecode_json('1', 'x')",
    ],
)
def test_decoder_check_allows_code_that_only_writes(source):
    assert not find_decoders(source)
