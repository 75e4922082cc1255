"""Every mutation of a room by cosmic-ray's operators and ours, and a seeded sample of them.

A sample draws the family of the mutation first, then the place in the code, then the change: else the many
strings and keywords of a room would crowd out the few comparisons and numbers that decide.
"""

from __future__ import annotations

import ast
import difflib
import random
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import cosmic_ray.ast
import cosmic_ray.plugins
from cosmic_ray.mutating import mutate_code
from extra_operators import EXTRA

FAMILIES = {
    "number": r"NumberReplacer",
    "comparison": r"NegateMembership|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is"
    r"|(Lt|LtE|Gt|GtE)_(Lt|LtE|Gt|GtE))",
    "condition": r"AddNot|DropFilter|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd"
    r"|ReplaceUnaryOperator_Delete_Not",
    "arithmetic": r"ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|Mod_Mul|Pow_Mul"
    r"|BitOr_BitAnd|BitAnd_BitOr)|ReplaceUnaryOperator_Delete_USub",
    "flow": r"DropStatement|ZeroIterationForLoop|ExceptionReplacer|ReplaceBreakWithContinue|ReplaceContinueWithBreak",
    "element": r"DropElement",
    "text": r"ChangeText",
}
LOGGING = re.compile(r"\b(log|logger|logging|warnings)\.\w+\(|\b(echo|secho|print)\(")
DECLARED = {"__all__", "DOCUMENTATION", "EXAMPLES", "RETURN", "__slots__"}
WORDS_FOR_PEOPLE = {"help", "metavar", "description", "hint", "epilog", "short_help"}


@dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    family: str
    operator: str
    occurrence: int
    place: tuple[int, int]

    @property
    def location(self) -> str:
        return f"{self.file}:{self.line}"

    def apply(self, source: str) -> str | None:
        """Return the mutated source; None if it is the same program."""
        changed = mutate_code(source, _operator(self.operator), self.occurrence)
        if changed is None or changed == source:
            return None
        try:
            is_same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
        except SyntaxError:
            return None
        return None if is_same else changed

    def changed_lines(self, source: str) -> tuple[str, str]:
        """Return the lines that the mutation removes and adds, stripped."""
        changed = self.apply(source) or source
        lines = list(difflib.unified_diff(source.splitlines(), changed.splitlines(), n=0, lineterm=""))[2:]
        sides = {sign: [line[1:].strip() for line in lines if line[0] == sign] for sign in "-+"}
        return " ".join(sides["-"]), " ".join(sides["+"])


def _operator(name: str):
    return EXTRA[name]() if name in EXTRA else cosmic_ray.plugins.get_operator(name)()


def _operators() -> list[tuple[str, str]]:
    names = [*cosmic_ray.plugins.operator_names(), *EXTRA]
    return [
        (name, family)
        for name in names
        for family, pattern in FAMILIES.items()
        if re.fullmatch(pattern, name.rpartition("/")[2])
    ]


def find_mutants(file: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, less those that change no behaviour: annotations, docstrings, logs."""
    skipped = _spans(source, has_no_effect)
    sums = _spans(source, lambda node: [node] if isinstance(node, ast.BinOp | ast.AugAssign) else [])
    nodes = list(cosmic_ray.ast.ast_nodes(cosmic_ray.ast.get_ast(source)))
    mutants = []
    for name, family in _operators():
        operator = _operator(name)
        places = (place for node in nodes for place, _ in operator.mutation_positions(node))
        mutants += [
            Mutant(file, place[0], family, name, occurrence, place)
            for occurrence, place in enumerate(places)
            if not any(first <= place < last for first, last in skipped)
            and (not name.startswith("core/ReplaceBinary") or any(a <= place < b for a, b in sums))
        ]
    return mutants


def _spans(source: str, choose) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the spans of the source that the syntax nodes chosen by ``choose`` take up."""
    lines = source.splitlines()

    def span(node):
        # ast counts columns in bytes, parso in letters.
        first = len(lines[node.lineno - 1].encode()[: node.col_offset].decode())
        last = len(lines[node.end_lineno - 1].encode()[: node.end_col_offset].decode())
        return (node.lineno, first), (node.end_lineno, last)

    spans = []
    for node in ast.walk(ast.parse(source)):
        spans += [span(child) for child in choose(node)]
    return spans


def has_no_effect(node: ast.AST) -> list[ast.AST]:
    """Return the parts of one syntax node that change nothing when they change."""
    parts: list[ast.AST | None] = []
    if isinstance(node, ast.AnnAssign | ast.arg):
        parts = [node.annotation]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        parts = [node.returns]
        if any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list):
            parts = [node]
    elif isinstance(node, ast.Call):
        parts = is_call_without_effect(node)
    elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'"):
        parts = [node.test, *node.body]
    elif _is_declaration(node):
        parts = [node]
    return [part for part in parts if part is not None]


def _is_declaration(node: ast.AST) -> bool:
    """Return True for imports, docstrings, names of types and the documentation of Ansible's modules."""
    if isinstance(node, ast.Assign):
        names = {ast.unparse(target) for target in node.targets}
        value = ast.unparse(node.value)
        return bool(names & DECLARED) or value.startswith(("TypeVar(", "Literal[", "Callable[", "logging."))
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Import | ast.ImportFrom)


def is_call_without_effect(node: ast.Call) -> list[ast.AST]:
    text = ast.unparse(node.func)
    if LOGGING.match(f"{text}("):
        return [node]
    if text in ("cast", "TypeVar", "field", "dataclass", "lru_cache", "functools.lru_cache"):
        # frozen=, slots=, kw_only= guard against programmers, not users; a cache changes only the time
        return [keyword for keyword in node.keywords if keyword.arg not in ("default", "default_factory")] + (
            [node.args[0]] if text == "cast" else []
        )
    return [keyword for keyword in node.keywords if keyword.arg in WORDS_FOR_PEOPLE]


def draw(mutants: list[Mutant], seed: str, root: Path):
    """Yield mutants in a random order fixed by the seed, no place in the code twice."""
    chance = random.Random(seed)
    families: dict[str, dict[tuple[str, tuple[int, int]], list[Mutant]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for candidate in mutants:
        families[candidate.family][candidate.file, candidate.place].append(candidate)
    while families:
        family = chance.choice(sorted(families))
        places = families[family]
        place = chance.choice(sorted(places))
        mutant = chance.choice(
            sorted(places.pop(place), key=lambda candidate: (candidate.operator, candidate.occurrence))
        )
        if not places:
            del families[family]
        if mutant.apply((root / mutant.file).read_text()) is not None:
            yield mutant
