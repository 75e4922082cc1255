"""Print the JSON Schema of the spec: ``python -m gpufleet.fleet.schema > stacks/fleet.schema.json``.

It describes a whole stack file, so that an editor completes and checks the keys while one types.
"""

from __future__ import annotations

import json
import sys

from gpufleet.fleet.fleet_loader import build_stack_json_schema


def main() -> None:
    """Write the schema to standard output."""
    json.dump(build_stack_json_schema(), sys.stdout, indent=2, sort_keys=True, ensure_ascii=False)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
