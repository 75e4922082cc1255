"""The parts of an evaluated program's error: problem and place. ``child.py`` loads it by its file."""

from __future__ import annotations

import importlib
import re
import traceback
from pathlib import Path
from typing import Any

Job = dict[str, Any]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
PREVIEW = "make `pulumi preview` succeed first"
PLACEHOLDER = re.compile(r"<[\w-]+:[\w/.-]+:\w+>")  # what the monitor answers a look-up with
# The same text for every failure: what a confined program raises must not lead to less confinement.
CONFINED = "if `pulumi preview` succeeds, docs/cost.md says what a confined program cannot do"


def describe_error(error: BaseException, job: Job, *, is_input_error: bool) -> dict[str, str]:
    """Return an error's parts (problem, location, key, remedy), each one line. An InputError keeps its own."""
    parts = read_input_error_parts(find_better_stack_error(error, job, is_input_error=is_input_error))
    if parts:
        return parts
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(job["root"])]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "__main__.py"
    lines = str(error).strip().splitlines() or [""]
    problem = f"the Pulumi program failed: {type(error).__name__}: {lines[0]}".rstrip(": ")
    remedy = find_lookup_remedy(error, lines[0], job) or (PREVIEW if job["bounds"]["trusted"] else CONFINED)
    if type(error).__name__ == "ProgramFailedError":
        problem, where = describe_process_error(str(error), job)
    return {"problem": problem, "where": where, "key": "", "remedy": remedy}


def describe_process_error(text: str, job: Job) -> tuple[str, str]:
    """Return the problem and the place of the error that the process of a program reported: text with a stack."""
    text = COLOUR.sub("", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it reported nothing"]
    if len(lines) > 1 and lines[0].endswith("unhandled exception:"):
        del lines[0]
    first = f"{lines[0]} {lines[1]}" if lines[0].endswith(":") and len(lines) > 1 else lines[0]
    root = re.escape(job["root"])
    places = re.findall(rf"({root}/(?!\S*node_modules)[^\s:()]+:\d+)", text)
    return f"the Pulumi program failed: {first.removeprefix('Error: ')}", places[
        0
    ] if places else "Pulumi.yaml"


def find_lookup_remedy(error: BaseException, text: str, job: Job) -> str:
    """Return how to give the answer of a look-up that an error is about; empty if it is about none."""
    placeholder = PLACEHOLDER.search(text)
    tokens: list[str] = job.get("unanswered_lookups") or []
    is_missing_value = bool(tokens) and isinstance(error, TypeError) and "NoneType" in text
    if not placeholder and not is_missing_value:
        return ""
    token = placeholder[0].strip("<>") if placeholder else tokens[-1]
    return f"{token} is looked up in the cloud: give its answer in gpufleet-lookups.yaml (docs/cost.md)"


def find_better_stack_error(error: BaseException, job: Job, *, is_input_error: bool) -> BaseException:
    """Read the stack's file again as the command line does: its error has the line number."""
    parts = read_input_error_parts(error)
    is_about_stack_file = (
        (Path(job["root"]) / "stacks").is_dir()
        if is_input_error
        else parts is not None and parts["where"] == f"stacks/Pulumi.{job['stack']}.yaml"
    )
    if not is_about_stack_file:
        return error
    try:
        load = importlib.import_module("gpufleet.fleet").load_fleet
        load(job["stack"], Path(job["root"]), Path(job["config_file"]) if job["config_file"] else None)
    except Exception as better:  # noqa: BLE001 - an older fleet may fail in any way; the first error stands then
        return better if read_input_error_parts(better) else error
    return error


def read_input_error_parts(error: BaseException) -> dict[str, str] | None:
    """Return the parts of an InputError of any gpufleet version, None for other errors."""
    chain = (error, error.__cause__, error.__context__)
    input_error = next(
        (each for each in chain if "InputError" in {kind.__name__ for kind in type(each).__mro__}), None
    )
    return (
        {part: str(getattr(input_error, part, "")) for part in ("problem", "where", "key", "remedy")}
        if input_error
        else None
    )
