"""Start a Go program: a binary that reads where its monitor is from its variables (sdk/go/pulumi/run.go)."""

from __future__ import annotations

import json
import os
import stat

from .program import InputError, LanguageProgram, ProgramCommand

PARALLEL = 16


def make_command(program: LanguageProgram, address: str) -> ProgramCommand:
    """Return the command that runs a program against the monitor at ``address``; raise InputError if it cannot run."""
    folder, _ = program.find_folder_and_entry()
    binary = program.tools["go"]
    if not os.access(binary, os.X_OK) or not stat.S_ISREG(os.stat(binary).st_mode):  # noqa: PTH116 - a text
        raise InputError("is not a program that can be run", binary, "binary", "build it for this machine")
    variables = {
        **os.environ,
        "PULUMI_PROJECT": program.project,
        "PULUMI_STACK": program.stack,
        "PULUMI_ORGANIZATION": "organization",
        "PULUMI_ROOT_DIRECTORY": str(program.root),
        "PULUMI_CONFIG": json.dumps(dict(program.configuration)),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(program.secret_keys)),
        "PULUMI_DRY_RUN": "true",
        "PULUMI_PARALLEL": str(PARALLEL),
        "PULUMI_MONITOR": address,
        "PULUMI_ENGINE": address,
    }
    return ProgramCommand([binary], variables, folder)
