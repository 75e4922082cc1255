"""Arguments in systemd's quoting."""

from __future__ import annotations

import re
from collections.abc import Iterable

PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def quote_systemd_argument(text: str) -> str:
    """Return one argument of a command line, quoted so that systemd passes it unchanged.

    ``%`` starts a specifier and ``$`` a variable in systemd.service(5), both also inside quotes; doubled they stand
    for themselves. podman's generator passes both on unchanged into ``ExecStart=`` (seen with quadlet 5.4.2).
    """
    safe = text.replace("%", "%%").replace("$", "$$")
    if PLAIN.fullmatch(safe):
        return safe
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'


def join_systemd_arguments(arguments: Iterable[str]) -> str:
    """Return arguments as one command line, one option per line."""
    return " \\\n\t".join(arguments)
