"""The program of one stack, as it is given to an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class StackProgram:
    """A program: the project ``root`` to run in, and its ``label`` in errors ("" is the working tree).

    A ``trusted`` program gets the user's environment, network and files. ``variables`` are set in addition. ``tree``
    is git's id of the project's folder as it was at another commit ``ref``, empty if it did not exist there, None for
    the working tree; ``visible_tree`` is that of all that the program sees.
    ``config_file`` is used instead of the stack's own file; at another commit it is ``config_text``.
    A program that ``may_be_unconfined`` is also run where this machine cannot confine it.
    """

    root: Path
    stack: str
    config_file: Path | None = None
    config_text: str | None = None
    label: str = ""
    trusted: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    tree: str | None = None
    ref: str = ""
    is_compared: bool = False
    visible_tree: str = ""
    may_be_unconfined: bool = False
