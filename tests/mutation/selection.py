"""Choose the tests for a mutant by coverage, those most likely to detect it first."""

from __future__ import annotations

import ast
import hashlib
import json
import pickle
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from rooms import CODE, COLLECTION, ROOT, Room
from sampling import Mutant
from sandbox import Sandbox

CACHE = ROOT / ".gpufleet/mutation/coverage"
FILE_LIMIT_S = 400


def _line_table() -> dict[int, set[str]]:
    return defaultdict(set)


@dataclass
class Coverage:
    """Lines of our files with the tests that run them, and how long each test takes."""

    lines: dict[str, dict[int, set[str]]] = field(default_factory=lambda: defaultdict(_line_table))
    imported: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, other: Coverage) -> None:
        for file, lines in other.lines.items():
            for line, tests in lines.items():
                self.lines[file][line] |= tests
        for file, at_import in other.imported.items():
            self.imported[file] |= at_import
        self.seconds |= other.seconds

    @cached_property
    def by_test_file(self) -> dict[str, set[str]]:
        lines_by_test_file = defaultdict(set)
        for test in self.seconds:
            lines_by_test_file[test.partition("::")[0]].add(test)
        return lines_by_test_file

    def of_file(self, file: str) -> set[str]:
        return set().union(*self.lines.get(file, {}).values())


def measure(file: str, copy: Sandbox, server) -> Coverage:
    """Return the coverage of a test file: from the cache while neither it nor its fixtures nor the code changed."""
    CACHE.mkdir(parents=True, exist_ok=True)
    name = file.removeprefix("tests/").removesuffix(".py").replace("/", "-")
    cached = CACHE / f"{name}.{_digest(file)}.pickle"
    if cached.is_file():
        return pickle.loads(cached.read_bytes())
    data = copy.root.parent / f"coverage-{name}"
    source = [str(copy.root / CODE), str(copy.root / COLLECTION)]
    print(f"mutants: measuring which lines {file} runs", file=sys.stderr, flush=True)
    server.request(folder=file, data=str(data), source=source, timeout=FILE_LIMIT_S)
    coverage = _read(data, copy.root) if Path(f"{data}.json").is_file() else Coverage()
    if not coverage.seconds:
        print(f"mutants: {file} ran no test within {FILE_LIMIT_S} s: left out", file=sys.stderr, flush=True)
    for old in CACHE.glob(f"{name}.*.pickle"):
        old.unlink()
    cached.write_bytes(pickle.dumps(coverage))
    return coverage


def _digest(file: str) -> str:
    seen = hashlib.sha256((ROOT / file).read_bytes())
    for folder in (ROOT / file).parents:
        if (folder / "conftest.py").is_file():
            seen.update((folder / "conftest.py").read_bytes())
    seen.update(_code_digest())
    return seen.hexdigest()[:16]


@cache
def _code_digest() -> bytes:
    seen = hashlib.sha256()
    for part in (CODE, COLLECTION):
        for path in sorted((ROOT / part).rglob("*")):
            if path.suffix in (".py", ".json", ".yaml", ".csv"):
                seen.update(path.read_bytes())
    return seen.digest()


def _read(data: Path, root: Path) -> Coverage:
    from coverage import CoverageData

    coverage = Coverage()
    report = json.loads(Path(f"{data}.json").read_text())
    coverage.seconds = {
        test: took for test, took in report["seconds"].items() if test not in report["failed"]
    }
    for part in data.parent.glob(f"{data.name}.*"):
        if part.suffix == ".json":
            continue
        read = CoverageData(basename=str(part))
        read.read()
        for file in read.measured_files():
            name = str(Path(file).relative_to(root))
            for line, contexts in read.contexts_by_lineno(file).items():
                coverage.lines[name][line] |= {context for context in contexts if context in coverage.seconds}
                coverage.imported[name].add(line)
    return coverage


class Selection:
    """Chooses tests for mutants, from the coverage of all folders."""

    def __init__(self, coverage: Coverage, room: Room, budget_s: float) -> None:
        self.coverage = coverage
        self.room = room
        self.budget_s = budget_s

    def is_run(self, mutant: Mutant) -> bool:
        """Return whether any test runs the mutated line."""
        first, last, inside = _statement(mutant.file, mutant.line)
        if inside:
            return any(self.coverage.lines[mutant.file].get(line) for line in range(first, last + 1))
        return bool(self.coverage.of_file(mutant.file))

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests to try, in order, as many as the budget of seconds takes."""
        chosen: list[str] = []
        remaining_s = self.budget_s
        seen: set[str] = set()
        for tier in self._tiers(mutant):
            for test in self._ranked(tier - seen):
                cost = self.coverage.seconds[test] + 0.005
                if cost <= remaining_s or not chosen:
                    chosen.append(test)
                    remaining_s -= cost
            seen |= tier
        return _grouped(chosen)

    def _tiers(self, mutant: Mutant) -> Iterable[set[str]]:
        first, last, inside = _statement(mutant.file, mutant.line)
        lines = self.coverage.lines[mutant.file]
        if inside:
            yield set().union(*(lines.get(line, set()) for line in range(first, last + 1)))
        else:
            yield self._users(_names(mutant.file, first))
        enclosing = _definition(mutant.file, mutant.line)
        near = set().union(*(lines.get(line, set()) for line in range(enclosing[0], enclosing[1] + 1)))
        yield near
        # Cached tables and shared fixtures run a line in one test and are looked at in others.
        yield set().union(*(self.coverage.by_test_file[test.partition("::")[0]] for test in near))
        yield self.coverage.of_file(mutant.file)
        yield {test for test in self.coverage.seconds if self._is_own(test)}

    def _users(self, names: set[str]) -> set[str]:
        """Return the tests that run a line which mentions one of the names."""
        if not names:
            return set()
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
        test_files: set[str] = set()
        for file, lines in self.coverage.lines.items():
            for number, text in enumerate(_lines(file), 1):
                if lines.get(number) and pattern.search(text):
                    test_files |= lines[number]
        return test_files

    def _is_own(self, test: str) -> bool:
        return test.startswith(f"tests/{self.room.name}/")

    def _ranked(self, tests: set[str]) -> list[str]:
        """Return own tests before others', short before long, and a test of each file before more of one."""
        turns: dict[str, int] = defaultdict(int)
        ranked = []
        for test in sorted(tests, key=lambda test: (self.coverage.seconds.get(test, 1e9), test)):
            if test in self.coverage.seconds:
                file = test.partition("::")[0]
                turns[file] += 1
                ranked.append((not self._is_own(test), turns[file] // 2, test))
        return [test for *_, test in sorted(ranked, key=lambda entry: entry[:2])]


def _grouped(tests: list[str]) -> list[str]:
    """Return the tests file by file, in the order of each file's first: fixtures are then made once."""
    files = {file: rank for rank, file in enumerate(dict.fromkeys(test.partition("::")[0] for test in tests))}
    return sorted(tests, key=lambda test: files[test.partition("::")[0]])


@cache
def _lines(file: str) -> list[str]:
    return (ROOT / file).read_text().splitlines()


@cache
def _tree(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def _enclosing_definitions(file: str, line: int) -> list[ast.stmt]:
    """Return the statements around a line, outermost first."""
    definitions = [
        node for node in ast.walk(_tree(file))
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    return sorted(definitions, key=lambda node: (node.lineno, -(node.end_lineno or 0)))


def _statement(file: str, line: int) -> tuple[int, int, bool]:
    """Return a statement's first and last line (of its head, if others are in it), and if it is in a function."""
    holders = _enclosing_definitions(file, line)
    if not holders:
        return line, line, False
    last = holders[-1]
    body = getattr(last, "body", None)
    inside = any(isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef) for holder in holders[:-1])
    if isinstance(body, list) and body:
        return last.lineno, max(last.lineno, body[0].lineno - 1), inside
    return last.lineno, last.end_lineno or last.lineno, inside


def _definition(file: str, line: int) -> tuple[int, int]:
    """Return the lines of the innermost function or class around a line, else of the file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    enclosing = [
        definition for definition in _enclosing_definitions(file, line) if isinstance(definition, kinds)
    ]
    if not enclosing:
        return 1, len(_lines(file))
    return enclosing[-1].lineno, enclosing[-1].end_lineno or enclosing[-1].lineno


def _names(file: str, line: int) -> set[str]:
    """Return the names that the statement at a line gives to a module or a class."""
    names: set[str] = set()
    for definition in _enclosing_definitions(file, line):
        if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(definition.name)
        elif isinstance(definition, ast.Assign | ast.AnnAssign):
            targets = definition.targets if isinstance(definition, ast.Assign) else [definition.target]
            names |= {
                node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
            }
    return names
