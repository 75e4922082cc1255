"""Fold a file of events into the project's registry as the callback does while a play runs."""

import json
import sys
from pathlib import Path

from gpufleet import nodes, paths
from gpufleet.operations import ingest
from gpufleet.operations.task_events import build_task_event

if __name__ == "__main__":
    root = paths.find_project_root()
    with nodes.Registry(paths.registry_database_url(root)) as registry:
        live = ingest.EventIngester.create_for_project(registry, root, live=True)
        for host, outcome, action, result in json.loads(Path(sys.argv[1]).read_text()):
            live.ingest_event(build_task_event(host, outcome, result, action=action))
