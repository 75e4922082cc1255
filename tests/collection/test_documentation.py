"""Test that Ansible can read every plugin's documentation: a colon in a sentence breaks its YAML."""

import ast
from pathlib import Path

import pytest
from ruamel.yaml import YAML

PLUGINS = Path(__file__).resolve().parents[2] / "modules/ansible_collections/gpufleet/fleet/plugins"
NAMES = ("DOCUMENTATION", "EXAMPLES", "RETURN", "FILES", "CONTROLLER")


def read_documents(path):
    """Return the YAML texts of a plugin by name."""
    return {
        target.id: node.value.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in NAMES and isinstance(node.value.value, str)
    }


DOCUMENTED = {
    path: documents for path in sorted(PLUGINS.glob("*/*.py")) if (documents := read_documents(path))
}


@pytest.mark.parametrize("path", DOCUMENTED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_documentation_is_valid_yaml_with_text_in_every_description(path):
    for name, text in DOCUMENTED[path].items():
        document = YAML(typ="safe", pure=True).load(text)
        if name == "DOCUMENTATION" and "description" in document:
            assert all(isinstance(sentence, str) for sentence in document["description"]), path
        if name != "EXAMPLES":
            for option in ((document or {}).get("options") or {}).values():
                assert isinstance(option.get("description", ""), str | list), path
