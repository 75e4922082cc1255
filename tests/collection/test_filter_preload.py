"""The callback that loads the filters: after it, no filter module is left for the process of a task to load."""

import subprocess
import sys
from pathlib import Path

FILTERS = Path(__file__).parents[2] / "modules/ansible_collections/gpufleet/fleet/plugins/filter"
PROGRAM = """
import sys
from ansible.plugins.loader import callback_loader, init_plugin_loader
init_plugin_loader()
callback_loader.get("gpufleet.fleet.filter_preload").v2_playbook_on_start(None)
prefix = "ansible_collections.gpufleet.fleet.plugins.filter."
print(*(name.removeprefix(prefix) for name in sys.modules if name.startswith(prefix)))
"""


def test_all_filters_are_loaded_before_a_playbook_starts():
    completed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert set(completed.stdout.split()) >= {path.stem for path in FILTERS.glob("*.py")}
