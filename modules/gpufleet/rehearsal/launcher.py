"""The `pulumi` of a rehearsal: prepares what the engine needs, then becomes the engine.

It is first on the rehearsal's PATH. It imports only the standard library, because it runs before every `pulumi`
command.

* The engine writes a stack's encryption salt into the stack's settings file, which is tracked and shared with the
  real clouds. Therefore the engine gets a copy with the rehearsal's salt. The copy is made from the tracked file for
  each command: edits apply at once, and the tracked file is not changed.
* A killed engine leaves its lock. Locks of ended processes are removed, so that the command can be repeated.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

SECRETS_LINE = re.compile(r"^(?:encryptionsalt|secretsprovider|encryptedkey):.*\n?", re.MULTILINE)
SECURE_VALUE = re.compile(r"^[^#\n]*(?:^|[\s{,])secure:\s", re.MULTILINE)


class UnsafeCommandError(Exception):
    """The command would damage the project's files."""


def main(arguments: Sequence[str]) -> int:
    """Prepare the files and exec the engine; the first argument is ``env.json``, the others are the user's."""
    facts = json.loads(Path(arguments[0]).read_text())
    try:
        environment = prepare_pulumi_command(facts, arguments[1:], os.environ)
    except (UnsafeCommandError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return exec_pulumi(facts["pulumi"], arguments[1:], environment)


def exec_pulumi(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by the engine: signals and the exit code stay those of the user's process."""
    os.execve(program, ["pulumi", *arguments], dict(environment))  # noqa: S606 - no shell is the point


def prepare_pulumi_command(
    rehearsal_facts: Mapping[str, Any], arguments: Sequence[str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Prepare the files for one command and return its environment."""
    if "destroy" in arguments and any(argument.split("=")[0] == "--remove" for argument in arguments):
        raise UnsafeCommandError(
            f"--remove would delete {rehearsal_facts['settings']}; "
            f"remedy: `gpufleet rehearse down -s {rehearsal_facts['stack']}`"
        )
    remove_stale_pulumi_locks(Path(rehearsal_facts["backend"]))
    prepared = {**environment, "PULUMI_OPTION_PRESERVE_CONFIG": "true"}  # `stack rm` keeps the settings file
    if is_pulumi_config_command(arguments) or not Path.cwd().is_relative_to(rehearsal_facts["root"]):
        return prepared
    settings_copy = Path(rehearsal_facts["settings_copy"])
    _write_atomically(
        settings_copy, read_settings_with_salt(Path(rehearsal_facts["settings"]), rehearsal_facts["salt"])
    )
    return {**prepared, "PULUMI_OPTION_CONFIG_FILE": str(settings_copy)}


def is_pulumi_config_command(arguments: Sequence[str]) -> bool:
    """Return whether the command edits the settings file, e.g. `pulumi config set`, also with flags before it."""
    previous_arguments = ("", *arguments)
    arguments_without_stack = [
        argument
        for argument, previous in zip(arguments, previous_arguments, strict=False)
        if previous not in ("-s", "--stack")
    ]
    return "config" in [argument for argument in arguments_without_stack if not argument.startswith("-")][:2]


def read_settings_with_salt(settings_file: Path, salt: str) -> str:
    """Return the text of the settings file with the rehearsal's salt instead of its own."""
    text = settings_file.read_text()
    if SECURE_VALUE.search(text):
        raise UnsafeCommandError(
            f"{settings_file}: it has an encrypted value (secure:), which a rehearsal cannot read; store it elsewhere"
        )
    retained = SECRETS_LINE.sub("", text)
    return (
        f"{retained}{'' if retained.endswith(chr(10)) or not retained else chr(10)}encryptionsalt: {salt}\n"
    )


def remove_stale_pulumi_locks(backend: Path) -> list[Path]:
    """Remove locks whose engine has ended; return them."""
    stale = [lock for lock in (backend / ".pulumi" / "locks").rglob("*.json") if not _is_held(lock)]
    for lock in stale:
        lock.unlink(missing_ok=True)
        lock.with_name(f"{lock.name}.attrs").unlink(missing_ok=True)
    return stale


def _is_held(lock: Path) -> bool:
    try:
        pid = int(json.loads(lock.read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return False  # incomplete after a killed engine, or already removed
    return is_pulumi_process(pid)


def is_pulumi_process(pid: int) -> bool:
    """Return whether the process runs and, where /proc shows it, is a Pulumi engine: ids are reused."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    name = Path(f"/proc/{pid}/comm")
    return not name.exists() or name.read_text().startswith("pulumi")


def _write_atomically(path: Path, text: str) -> None:
    """Write the file atomically: two commands may run at once."""
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    temporary.write_text(text)
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
