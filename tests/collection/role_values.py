"""Print what expressions of roles give: cases on standard input, values on standard output, both JSON.

A case names a role (``playbooks`` for the playbooks themselves), an expression of it (``vars#NAME``, or
``tasks/FILE.yml#KEY`` for a key of a task) and the variables that the host has. Ansible's own template engine evaluates
the expression as in a run.
Usage: role_values.py ROLES_FOLDER
"""

import json
import sys
from pathlib import Path

from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar

PLAYBOOKS = Path(__file__).resolve().parents[2] / "modules/ansible_collections/gpufleet/fleet/playbooks"


def find(tree, key):
    """Return the first value of a key, at any depth of a list of tasks."""
    if isinstance(tree, dict):
        if key in tree:
            return tree[key]
        tree = list(tree.values())
    inner = [find(item, key) for item in tree] if isinstance(tree, list) else []
    return next((value for value in inner if value is not None), None)


def find_task_variables(tree, key):
    """Return the variables of the task that has a key."""
    if isinstance(tree, dict) and "vars" in tree and find(tree, key) is not None:
        return tree["vars"]
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else []
    return next((variables for item in inner if (variables := find_task_variables(item, key))), {})


def evaluate(roles, loader, case):
    folder = PLAYBOOKS if case["role"] == "playbooks" else roles / case["role"]
    variables = {
        "role_path": str(folder),
        "ansible_search_path": [str(folder)],
        "ansible_check_mode": False,
        "ansible_facts": {},
        "group_names": [],
        "ansible_run_tags": ["all"],
        "ansible_skip_tags": [],
    }
    for file in ("defaults/main.yml", "vars/main.yml", "group_vars/all.yml"):
        if (folder / file).is_file():
            variables.update(loader.load_from_file(str(folder / file), trusted_as_template=True) or {})
    file, _, key = case["at"].partition("#")
    tree = (
        variables if file == "vars" else loader.load_from_file(str(folder / file), trusted_as_template=True)
    )
    if file != "vars":
        variables.update(find_task_variables(tree, key))
    variables.update(case["variables"])
    return Templar(loader, variables=variables).template(find(tree, key))


if __name__ == "__main__":
    init_plugin_loader()
    roles, loader = Path(sys.argv[1]).resolve(), DataLoader()
    print(json.dumps([evaluate(roles, loader, case) for case in json.load(sys.stdin)]))
