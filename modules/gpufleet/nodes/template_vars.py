"""Print a template's host variables: ``python -m gpufleet.nodes.template_vars STACK TEMPLATE``.

For a machine that is in no inventory, such as one that becomes an image.
"""

from __future__ import annotations

import json
import sys

from gpufleet import fleet
from gpufleet.errors import GpufleetError, InputError
from gpufleet.nodes.blueprint import build_blueprint_variables


def main(arguments: list[str]) -> int:
    """Print a template's variables as JSON."""
    try:
        if len(arguments) != 2:  # noqa: PLR2004 - stack and template
            raise InputError(
                "give a stack and a template", remedy="python -m gpufleet.nodes.template_vars STACK TEMPLATE"
            )
        declared = fleet.load_fleet(arguments[0])
        if arguments[1] not in declared.templates:
            template_names = ", ".join(sorted(declared.templates)) or "none"
            raise InputError(
                f"template {arguments[1]!r} not found in stack {arguments[0]}",
                remedy=f"templates: {template_names}",
            )
    except GpufleetError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(json.dumps(build_blueprint_variables(declared.resolve_blueprint(arguments[1])), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
