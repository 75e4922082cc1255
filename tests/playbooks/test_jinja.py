"""Playbooks and roles decide nothing in Jinja: typed filters of the collection do."""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
FLEET = ROOT / "modules/ansible_collections/gpufleet/fleet"
PLAYBOOKS, ROLES = FLEET / "playbooks", FLEET / "roles"
PLAY_FILES = sorted(
    path for pattern in ("*.yml", "tasks/*.yml", "group_vars/*.yml") for path in PLAYBOOKS.glob(pattern)
)
FILES = PLAY_FILES + sorted(path for pattern in ("*/*/*.yml", "*/*/*.j2") for path in ROLES.glob(pattern))
EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
# What selects or joins items of lists. A plain map(attribute=…) may stay.
LIST_LOGIC = re.compile(r"\|\s*(select|reject|selectattr|rejectattr|difference|union|product|groupby|zip)\b")


def list_expressions(path):
    return EXPRESSION.findall(path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(path.parents[2])))
def test_templates_have_no_statements_and_no_nested_conditions(path):
    assert "{%" not in path.read_text()
    nested = [
        expression for expression in list_expressions(path) if len(re.findall(r"\bif\b", expression)) > 1
    ]
    assert nested == []


@pytest.mark.parametrize("role", sorted(path.name for path in ROLES.iterdir()))
def test_roles_select_no_items_of_lists_in_templates(role):
    files = [path for path in FILES if ROLES / role in path.parents]
    selecting = [text for path in files for text in list_expressions(path) if LIST_LOGIC.search(text)]
    assert selecting == []


def list_role_variables():
    """Return the text of every variable of the roles by its name."""
    variables = {}
    for path in ROLES.glob("*/vars/main.yml"):
        variables |= {name: str(value) for name, value in YAML(typ="safe").load(path).items()}
    return variables


def find_used_variables(text, variables):
    """Return the variables that a text uses, also through others."""
    used, waiting = set(), [text]
    while waiting:
        names = variables.keys() & set(re.findall(r"\w+", waiting.pop())) - used
        used |= names
        waiting += [variables[name] for name in names]
    return used


def test_plays_use_no_variable_that_needs_the_folder_of_a_role():
    variables = list_role_variables()
    plays = "".join(path.read_text() for path in PLAY_FILES)
    used = find_used_variables(plays, variables)
    assert "network_not_applied" in used
    assert [name for name in sorted(used) if re.search(r"\brole_path\b|lookup\(", variables[name])] == []
