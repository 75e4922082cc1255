"""Read ``commitments.yaml``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from gpufleet.cost.pricing.commitments.model import Commitment, CommitmentFile
from gpufleet.errors import InputError
from gpufleet.fleet.document import SpecProblem, YamlDocument, find_ambiguous_numbers, read_yaml_document
from gpufleet.fleet.error_explanation import explain_validation_errors

NAME = "commitments.yaml"
KINDS = tuple(get_args(kind.model_fields["kind"].annotation)[0] for kind in get_args(Commitment))


def read_commitments_file(path: Path, text: str | None = None) -> CommitmentFile:
    """Return the commitments of a file; what is wrong is one line with file, line and key."""
    if text is None and not path.is_file():
        raise InputError("file not found", where=str(path), remedy="create it, or omit --commitments")
    document = read_yaml_document(path, str(path), text)
    if not isinstance(document.plain_data, dict):
        problem = SpecProblem((), "is not a mapping", "start with commitments: and a list")
        document.raise_first_problem([problem])
    document.raise_first_problem([*find_ambiguous_numbers(document.node), *_kinds(document)])
    try:
        return CommitmentFile.model_validate(document.plain_data)
    except ValidationError as error:
        problems = explain_validation_errors(error, CommitmentFile, document.plain_data)
        document.raise_first_problem(
            [replace(problem, path=_without_kind(problem.path)) for problem in problems]
        )
        raise


def _without_kind(path: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return a place in the file: pydantic adds the kind of the entry to it."""
    return path[:-1] if path and path[-1] in KINDS else path


def _kinds(document: YamlDocument) -> list[SpecProblem]:
    """Name each entry whose kind is missing, in words of this file."""
    entries = document.plain_data.get("commitments")
    listed = entries if isinstance(entries, list) else []
    return [
        SpecProblem(("commitments", at, "kind"), "is missing", f"add one of {', '.join(KINDS)}")
        for at, entry in enumerate(listed)
        if isinstance(entry, dict) and "kind" not in entry
    ]
