"""The `pulumi` of a rehearsal: prepares what the engine needs, then becomes the engine.

It stands first on the rehearsal's PATH. Only the standard library: it runs before every `pulumi` command.

* The engine writes a stack's encryption salt into the stack's settings file, which is tracked and shared with
  the real clouds. So the engine reads a copy that has the rehearsal's salt, made anew from the tracked file for
  each command: edits count at once, and the tracked file stays as it is.
* An engine that was killed leaves its lock. A lock whose process has ended is removed, so that the same
  command typed again goes on.
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


class Refusal(Exception):  # noqa: N818 - not an error of the program: it declines to do this
    """What the user asked would harm the project's files."""


def main(arguments: Sequence[str]) -> int:
    """Become the engine; the first argument is the rehearsal's ``env.json``, the others are the user's."""
    facts = json.loads(Path(arguments[0]).read_text())
    try:
        environment = prepare(facts, arguments[1:], os.environ)
    except (Refusal, OSError) as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 2
    return execute(facts["pulumi"], arguments[1:], environment)


def execute(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Become the engine: its process is the one that the user started, signals and exit code included."""
    os.execve(program, ["pulumi", *arguments], dict(environment))  # noqa: S606 - no shell is the point


def prepare(
    facts: Mapping[str, Any], arguments: Sequence[str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Ready the files for one command and return the environment to run it in."""
    if "destroy" in arguments and any(word.split("=")[0] == "--remove" for word in arguments):
        raise Refusal(
            f"--remove would delete {facts['settings']}; remedy: `gpufleet rehearse down -s {facts['stack']}`"
        )
    remove_stale_locks(Path(facts["backend"]))
    ready = {**environment, "PULUMI_OPTION_PRESERVE_CONFIG": "true"}  # `stack rm` keeps the settings file
    if edits_settings(arguments) or not Path.cwd().is_relative_to(facts["root"]):
        return ready
    copy = Path(facts["settings_copy"])
    _write(copy, rehearsed_settings(Path(facts["settings"]), facts["salt"]))
    return {**ready, "PULUMI_OPTION_CONFIG_FILE": str(copy)}


def edits_settings(arguments: Sequence[str]) -> bool:
    """Tell whether a command is about the settings file itself: `pulumi config set`, flags before it or not."""
    before = ("", *arguments)
    words = [word for word, last in zip(arguments, before, strict=False) if last not in ("-s", "--stack")]
    return "config" in [word for word in words if not word.startswith("-")][:2]


def rehearsed_settings(tracked: Path, salt: str) -> str:
    """Return the text of a stack's settings with the rehearsal's salt in place of any other."""
    text = tracked.read_text()
    if SECURE_VALUE.search(text):
        raise Refusal(
            f"{tracked}: it holds an encrypted value (secure:), which a rehearsal cannot read; keep it elsewhere"
        )
    kept = SECRETS_LINE.sub("", text)
    return f"{kept}{'' if kept.endswith(chr(10)) or not kept else chr(10)}encryptionsalt: {salt}\n"


def remove_stale_locks(backend: Path) -> list[Path]:
    """Remove locks whose engine has ended; return them."""
    stale = [lock for lock in (backend / ".pulumi" / "locks").rglob("*.json") if not _held(lock)]
    for lock in stale:
        lock.unlink(missing_ok=True)
        lock.with_name(f"{lock.name}.attrs").unlink(missing_ok=True)
    return stale


def _held(lock: Path) -> bool:
    try:
        pid = int(json.loads(lock.read_text())["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return False  # half written by an engine that was killed, or gone by now
    return is_engine(pid)


def is_engine(pid: int) -> bool:
    """Tell whether a process runs and, where that can be seen, is a Pulumi engine: numbers are used again."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    name = Path(f"/proc/{pid}/comm")
    return not name.exists() or name.read_text().startswith("pulumi")


def _write(path: Path, text: str) -> None:
    """Write whole or not at all: two commands may prepare at once."""
    fresh = path.with_name(f".{os.getpid()}-{path.name}")
    fresh.write_text(text)
    fresh.replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
