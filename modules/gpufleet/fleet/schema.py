"""Print the JSON Schema of the spec: ``python -m gpufleet.fleet.schema > stacks/fleet.schema.json``.

It describes a whole stack file, so that an editor completes and checks the keys while one types.
"""

from __future__ import annotations

import sys

from gpufleet.fleet.fleet_loader import format_stack_json_schema


def main() -> None:
    """Write the schema to standard output."""
    sys.stdout.write(format_stack_json_schema())


if __name__ == "__main__":
    main()
