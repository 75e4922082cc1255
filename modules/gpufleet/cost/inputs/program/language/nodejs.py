"""Start a TypeScript or JavaScript program with the runner of its own ``@pulumi/pulumi``."""

from __future__ import annotations

import json
import os
import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from .program import InputError, LanguageProgram, ProgramCommand

RUNNER = "@pulumi/pulumi/cmd/run/index.js"
# WebAssembly, which loads ES modules, otherwise reserves 4 to 10 GiB of addresses for each of its memories: more than a
# confined process may have. A memory has at most 256 MiB, and bounds that are checked.
SMALL_MEMORIES = ("--disable-wasm-trap-handler", "--wasm-max-mem-pages=4096")
PARALLEL = 16  # the engine's default is four times the processors; the monitor answers one at a time
TOKEN = re.compile(r"([\w-]+):((?:[\w.-]+/)*[\w.-]+):(\w+)")  # of a lookup: package, module and function
RESULT = re.compile(r"export interface \w+Result \{(.*?)^\}", re.DOTALL | re.MULTILINE)
PROPERTY = re.compile(r"^ {4}readonly (\w+)\??:", re.MULTILINE)
PLUG_AND_PLAY = ".pnp.cjs"
NODE_LINKER = "set nodeLinker: node-modules in .yarnrc.yml, and run yarn install"
INSTALL_COMMANDS = {
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
    "yarn.lock": "yarn install --immutable",
    "bun.lock": "bun install --frozen-lockfile",
    "bun.lockb": "bun install --frozen-lockfile",
    "package-lock.json": "npm ci",
    "npm-shrinkwrap.json": "npm ci",
}


def make_command(program: LanguageProgram, address: str) -> ProgramCommand:
    """Return the command that runs a program against the monitor at ``address``; raise InputError if it cannot run."""
    folder, entry = program.find_folder_and_entry()
    arguments = [
        program.tools["node"],
        *SMALL_MEMORIES,
        *_read_node_arguments(program),
        str(find_runner(folder, program.root)),
        f"--monitor={address}",
        f"--engine={address}",
        f"--project={program.project}",
        f"--stack={program.stack}",
        "--organization=organization",
        f"--pwd={folder}",
        f"--parallel={PARALLEL}",
        "--dry-run",
        entry,
    ]
    variables = {
        **os.environ,
        "PULUMI_CONFIG": json.dumps(dict(program.configuration)),
        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(program.secret_keys)),
        "PULUMI_NODEJS_TYPESCRIPT": "false" if program.options.get("typescript") is False else "true",
        "PULUMI_NODEJS_TRANSPILE_ONLY": "true",  # types do not change what is registered, and take most of the time
        "TS_NODE_TRANSPILE_ONLY": "true",  # before 3.113
    }
    tsconfig = program.options.get("tsconfig")
    if isinstance(tsconfig, str):
        variables["PULUMI_NODEJS_TSCONFIG_PATH"] = str(program.root / tsconfig)
    return ProgramCommand(arguments, variables, folder)


def find_runner(folder: Path, root: Path) -> Path:
    """Return the runner as Node finds it from a folder: in the nearest ``node_modules`` that has it."""
    for place in (folder, *folder.parents):
        runner = place / "node_modules" / RUNNER
        if runner.is_file():
            return runner
        if (place / PLUG_AND_PLAY).is_file():
            raise InputError("Yarn's Plug'n'Play is not supported", place / PLUG_AND_PLAY, remedy=NODE_LINKER)
    problem = "@pulumi/pulumi is not installed: no node_modules above the program has it"
    raise InputError(problem, folder, remedy=f"run {find_install_command(root)} there")


def find_install_command(root: Path) -> str:
    """Return the command that installs the packages of a project, by its lock file."""
    for place in (root, *root.parents):
        for name, command in INSTALL_COMMANDS.items():
            if (place / name).is_file():
                return command
    return "npm install"


def _read_node_arguments(program: LanguageProgram) -> list[str]:
    value: Any = program.options.get("nodeargs")
    if value is None:
        return []
    if not isinstance(value, str):
        raise InputError(
            "is not a text", program.root / "Pulumi.yaml", "nodeargs", "for example --no-warnings"
        )
    return shlex.split(value)


def list_lookup_outputs(program: LanguageProgram, token: str) -> list[str]:
    """Return the names of a lookup's outputs by the declarations of its installed package, none if they are not there.

    The token ``aws:ecs/getService:getService`` is declared in ``ecs/getService.d.ts`` of ``@pulumi/aws``.
    """
    parts = TOKEN.fullmatch(token)
    if not parts:
        return []
    module = parts[2].split("/")[0]
    file = f"{parts[3]}.d.ts" if module == "index" else f"{module}/{parts[3]}.d.ts"
    folder, _ = program.find_folder_and_entry()
    for place in (folder, *folder.parents):
        with suppress(OSError, UnicodeDecodeError):
            text = (place / "node_modules/@pulumi" / parts[1] / file).read_text(encoding="utf-8")
            result = RESULT.search(text)
            return PROPERTY.findall(result[1]) if result else []
    return []
