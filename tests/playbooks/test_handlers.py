"""Test that every notified handler exists in its role by its exact name."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROLES = Path(__file__).parents[2] / "modules/ansible_collections/gpufleet/fleet/roles"


def list_tasks(tasks):
    """Yield every task, those inside blocks too."""
    for task in tasks or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from list_tasks(task.get(part))


def read_tasks(folder):
    for path in sorted(folder.glob("*.yml")):
        yield from list_tasks(YAML(typ="safe").load(path.read_text()))


@pytest.mark.parametrize("role", sorted(ROLES.iterdir()), ids=lambda path: path.name)
def test_notified_handlers_exist(role):
    handlers = {task["name"] for task in read_tasks(role / "handlers")}
    notified = set()
    for task in read_tasks(role / "tasks"):
        names = task.get("notify", [])
        notified |= {names} if isinstance(names, str) else set(names)
    assert notified <= handlers
