"""A YAML file with the line of every key, so that an error can name its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarint import BinaryInt, HexInt, OctalInt, ScalarInt

from gpufleet.boundary import decode_yaml_with_line_numbers, make_printable, read_text
from gpufleet.errors import InputError

MAX_PART_LENGTH = 300  # characters of one part of an error

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class SpecProblem:
    """A mistake: its place in the document, the problem and the remedy."""

    path: KeyPath
    text: str
    remedy: str


@dataclass(frozen=True)
class YamlDocument:
    """A part of a YAML file. ``label`` names the file, ``prefix`` the key that contains the part."""

    label: str
    node: Any
    prefix: str = ""

    @property
    def plain_data(self) -> Any:
        """Return the content as plain Python values."""
        return to_plain_values(self.node)

    def find_key_line(self, path: KeyPath) -> int | None:
        """Return the line of the deepest key of ``path`` that the file has."""
        node, line = self.node, None
        for step in path:
            here = _line_of(node, step)
            if here is None:
                break
            node, line = node[step], here
        return line if line is not None else _line_of_self(self.node)

    def build_input_error(self, problem: SpecProblem) -> InputError:
        """Return the problem as one line."""
        line = self.find_key_line(problem.path)
        return InputError(
            to_printable_line(problem.text),
            where=self.label if line is None else f"{self.label}:{line}",
            key=to_printable_line(format_key_path(self.prefix, problem.path)),
            remedy=to_printable_line(problem.remedy),
        )

    def list_errors(self, problems: Sequence[SpecProblem]) -> list[InputError]:
        """Return the problems as errors, in the order of the file."""
        ordered = sorted(problems, key=lambda problem: self.find_key_line(problem.path) or 0)
        return [self.build_input_error(problem) for problem in ordered]

    def raise_first_problem(self, problems: Sequence[SpecProblem]) -> None:
        """Raise the first problem, in the order of the file, if there is one."""
        raise_first_error(self.list_errors(problems))


def raise_first_error(errors: Sequence[InputError]) -> None:
    """Raise the first error, if there is one, with the number of the others; its ``errors`` are all of them."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        first = errors[0]
        remedy = f"{first.remedy} (and {len(errors) - 1} more: gpufleet validate)"
        summary = InputError(first.problem, where=first.where, key=first.key, remedy=remedy)
        summary.errors = tuple(errors)
        raise summary


def read_yaml_document(path: Path, label: str, text: str | None = None) -> YamlDocument:
    """Return a YAML file as a document; broken YAML is an InputError with its line.

    ``text`` is its content where it is not that of the file.
    """
    content = read_text(path, where=label) if text is None else text
    return YamlDocument(label, decode_yaml_with_line_numbers(content, label))


def to_plain_values(yaml_node: Any) -> Any:
    """Return YAML nodes as plain Python values."""
    if isinstance(yaml_node, Mapping):
        return {str(key): to_plain_values(value) for key, value in yaml_node.items()}
    if isinstance(yaml_node, list | tuple):
        return [to_plain_values(item) for item in yaml_node]
    for kind in (bool, int, float, str):
        if isinstance(yaml_node, kind):
            return kind(yaml_node)
    return yaml_node


def find_ambiguous_numbers(yaml_node: Any, path: KeyPath = ()) -> Iterator[SpecProblem]:
    """Yield a problem for each integer that the engine's YAML 1.1 parser would read differently."""
    if isinstance(yaml_node, Mapping):
        for key, value in yaml_node.items():
            yield from find_ambiguous_numbers(value, (*path, str(key)))
    elif isinstance(yaml_node, list | tuple):
        for index, value in enumerate(yaml_node):
            yield from find_ambiguous_numbers(value, (*path, index))
    elif isinstance(yaml_node, ScalarInt) and (ambiguity := _describe_ambiguity(yaml_node)):
        yield SpecProblem(
            path, f"{ambiguity}, which YAML readers read as different numbers", f"write {int(yaml_node)}"
        )


def _describe_ambiguity(number: ScalarInt) -> str:
    if isinstance(number, OctalInt):
        return f"'0o{int(number):o}' is octal"
    if isinstance(number, BinaryInt):
        return f"'0b{int(number):b}' is binary"
    if getattr(number, "_underscore", None):  # the reader keeps how a number was written nowhere else
        return "the number has underscores"
    width = getattr(number, "_width", None) or 0
    padded = not isinstance(number, HexInt) and width > len(str(abs(number)))
    return f"'{int(number):0{width}d}' has a leading zero" if padded else ""


def to_printable_line(text: str) -> str:
    """Return a text on one line: line breaks and invisible characters are escaped."""
    return make_printable(text, MAX_PART_LENGTH)


def format_key_path(prefix: str, path: KeyPath) -> str:
    """Return a path as text: ``gpufleet:fleet.pools[1].purchase.kind``."""
    text = prefix
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{step}"
    return text


def _line_of(node: Any, step: str | int) -> int | None:
    try:
        if isinstance(node, CommentedMap) and step in node:
            return int(node.lc.key(step)[0]) + 1
        if isinstance(node, CommentedSeq) and isinstance(step, int) and step < len(node):
            return int(node.lc.item(step)[0]) + 1
    except (AttributeError, KeyError, TypeError):  # a merged key (<<) has no line of its own
        return None
    return None


def _line_of_self(node: Any) -> int | None:
    line = getattr(getattr(node, "lc", None), "line", None)
    return None if line is None else int(line) + 1
