# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""Kernel arguments in the files of boot loaders: a Raspberry Pi's cmdline.txt, GRUB's folder of settings. Pure.

Sources, read 2026-11-22: Raspberry Pi documentation, "Kernel command line (cmdline.txt)": one line, in /boot/firmware;
Debian's grub-mkconfig, which reads /etc/default/grub.d/*.cfg; grubby(8); the kernel's admin-guide/kernel-parameters.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

# Every argument that the kernel documents fits; what a shell, GRUB or a second line could read otherwise does not.
ARGUMENT = re.compile(r"[A-Za-z0-9_.-]+(=[A-Za-z0-9_.,:;/@%+=*\[\]~!-]*)?")
MAX_COMMAND_LINE = 2048  # COMMAND_LINE_SIZE of x86 and arm64


def find_invalid_arguments(arguments: Iterable[str]) -> list[str]:
    """Return arguments that are not NAME or NAME=VALUE of harmless characters."""
    return [argument for argument in arguments if not ARGUMENT.fullmatch(argument)]


def edit_command_line(
    line: str, present: Sequence[str], absent: Sequence[str], recorded: Sequence[str] = ()
) -> str:
    """Return the arguments without the absent ones and with the present ones at the end, where the kernel prefers them.

    An absent NAME removes every argument of that name, NAME=VALUE only that one. A name may occur several times
    (``console=``), so another value of a present argument's name stays. ``recorded`` are the exact arguments that
    gpufleet added before: they are removed unless requested, and stay in the requested order, because ``hugepages=``
    belongs to the ``hugepagesz=`` before it.
    """
    stale = {*absent, *recorded} - {*present}
    names = set(absent)
    remaining = [
        argument
        for argument in line.split()
        if argument not in stale and argument.partition("=")[0] not in names
    ]
    added = list_added_arguments(" ".join(remaining), present, recorded)
    if [argument for argument in remaining if argument in added] != added:
        remaining = [argument for argument in remaining if argument not in added] + added
    return " ".join(remaining)


def list_added_arguments(line: str, present: Iterable[str], recorded: Iterable[str]) -> list[str]:
    """Return the present arguments that are gpufleet's: it added them before, or the line does not have them."""
    others = line.split()
    added = set(recorded)
    return [argument for argument in dict.fromkeys(present) if argument in added or argument not in others]


def list_inactive_arguments(running: str, present: Iterable[str], absent: Iterable[str]) -> list[str]:
    """Return what the running kernel does not have as requested: ``quiet``, ``without splash``."""
    arguments = running.split()
    names = {argument.partition("=")[0] for argument in arguments}
    missing = [argument for argument in present if argument not in arguments]
    return missing + [f"without {argument}" for argument in absent if argument in {*arguments, *names}]


def format_grub_settings(present: Iterable[str], absent: Iterable[str]) -> str:
    """Return a file of /etc/default/grub.d that edits what the files before it set; empty if nothing is requested."""
    lines = []
    for argument in absent:
        pattern = re.escape(argument) + ("" if "=" in argument else "(=[^ ]*)?")
        for name in ("GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"):
            script = shlex.quote(f"s/(^| ){pattern.replace('/', '[/]')}( |$)/ /g")
            lines.append(f'{name}=$(printf %s "${name}" | sed -E {script})')
    if added := list(dict.fromkeys(present)):
        lines.append(f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(added)}"')
    return "".join(f"{line}\n" for line in lines)
