"""Playbooks and roles decide nothing in Jinja: typed filters of the collection do."""

import re
from pathlib import Path

import pytest

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
FILES = sorted(
    path
    for pattern in ("*.yml", "tasks/*.yml", "group_vars/*.yml", "roles/*/*/*.yml", "roles/*/*/*.j2")
    for path in PLAYBOOKS.glob(pattern)
)
EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)
# What selects or joins items of lists. A plain map(attribute=…) may stay.
LIST_LOGIC = re.compile(r"\|\s*(select|reject|selectattr|rejectattr|difference|union|product|groupby|zip)\b")


def list_expressions(path):
    return EXPRESSION.findall(path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PLAYBOOKS)))
def test_templates_have_no_statements_and_no_nested_conditions(path):
    assert "{%" not in path.read_text()
    nested = [
        expression for expression in list_expressions(path) if len(re.findall(r"\bif\b", expression)) > 1
    ]
    assert nested == []


@pytest.mark.parametrize("role", sorted(path.name for path in (PLAYBOOKS / "roles").iterdir()))
def test_roles_select_no_items_of_lists_in_templates(role):
    files = [path for path in FILES if PLAYBOOKS / "roles" / role in path.parents]
    selecting = [text for path in files for text in list_expressions(path) if LIST_LOGIC.search(text)]
    assert selecting == []
