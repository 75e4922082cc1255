"""The call in a user's program that declares a component: where a mistake in its arguments is."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from gpufleet.errors import InputError
from gpufleet.paths import find_project_root

OWN_PACKAGES = ("contextlib", "gpufleet", "pulumi")
FLEET_PREFIX = re.compile(
    r"^(gpufleet:fleet)?\.?((pools|racks)\[[^]]*\])?\.?"
)  # of a key in a whole fleet's spec
KEY_STEP = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True)
class ProgramCall:
    """A call of a component's class: its file, relative to the project, its line and its arguments as written."""

    component: str  # class and name: GpuPool "train"
    file: str
    line: int
    arguments: ast.expr | None = None

    def locate_error(self, error: InputError) -> InputError:
        """Return an error about the component's arguments with the line of the argument; others as they are."""
        if error.where != self.component:
            return error
        key = FLEET_PREFIX.sub("", error.key)
        return InputError(
            error.problem,
            where=f"{self.file}:{self.find_argument_line(key)}",
            key=f"{self.component}: {key}" if key else self.component,
            remedy=error.remedy,
        )

    def find_argument_line(self, key: str) -> int:
        """Return the line of an argument such as ``ssh.authorized_keys[0]``: of as much as is written in the call."""
        line, node = self.line, self.arguments
        for step in KEY_STEP.findall(key):
            found = _find_part(node, step)
            if found is None:
                break
            line, node = found
        return line


def find_program_call(component: str) -> ProgramCall:
    """Return the innermost call from outside of gpufleet and Pulumi."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to one's caller
    while frame and str(frame.f_globals.get("__name__")).partition(".")[0] in OWN_PACKAGES:
        frame = frame.f_back
    if frame is None:
        return ProgramCall(component, "__main__.py", 1)
    file = frame.f_code.co_filename
    return ProgramCall(component, _make_relative(file), frame.f_lineno, _find_call(frame, file))


def _make_relative(file: str) -> str:
    try:
        return Path(file).resolve().relative_to(find_project_root()).as_posix()
    except ValueError:  # outside of the project, or (InputError) there is none
        return Path(file).name


def _find_call(frame: FrameType, file: str) -> ast.Call | None:
    """Return the call that a frame is at, None if its source cannot be read."""
    place = inspect.getframeinfo(frame, context=0).positions
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    spans = ((node, (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)) for node in calls)
    return next((node for node, span in spans if span == place), None)


def _find_part(node: ast.AST | None, step: str) -> tuple[int, ast.expr] | None:
    """Return line and value of an argument, a key of a dictionary, or an item of a list."""
    if isinstance(node, ast.Call):
        return next(((each.lineno, each.value) for each in node.keywords if each.arg == step), None)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return next(
            ((k.lineno, v) for k, v in pairs if isinstance(k, ast.Constant) and k.value == step), None
        )
    if isinstance(node, ast.List | ast.Tuple) and step.isdecimal() and int(step) < len(node.elts):
        item = node.elts[int(step)]
        return item.lineno, item
    return None
