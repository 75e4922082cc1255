"""Host patterns: Ansible's operators, subscripts and regular expressions, and our folded ranges (``blade[01-03]``).

Ansible splits a pattern with a comma at its commas only, and one without at its colons. It takes ``[01-03]`` for a
subscript or for characters of a wildcard. Here, a range is expanded inside its term, before Ansible sees it. A pattern
without a range reaches Ansible as it was typed. Where both readings are possible, the pattern is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from ipaddress import AddressValueError, IPv6Address
from itertools import groupby
from typing import TypeVar

from gpufleet.boundary import make_printable
from gpufleet.boundary.name_range import count_names_at_most, expand_name_range
from gpufleet.errors import CheckFailed, InputError

MAX_NAMES = 20_000  # that the ranges of one pattern mean
LONGEST_ARGUMENT = 128 * 1024 - 1  # bytes that Linux passes as one argument of a program
LONGEST_LIST = (
    LONGEST_ARGUMENT // 2
)  # a longer list of names, such as a resumed run's, is written as one expression
NAMES_REMEDY = "write names or ranges like blade[01-20]"
RANGE_REMEDY = "write ranges like blade[01-20], and Ansible's slices like group[0:2]"
MIXED_SEPARATORS = (
    "has a colon, and the pattern has commas",
    "Ansible splits it at the commas only: write commas",
)
# Possessive: what was read as a part of a range is never read again, however long the text is.
_PART = "[0-9]++(?:-[0-9]++(?:/[0-9]++)?+)?+"
_NUMBERS = rf"\[{_PART}(?:,{_PART})*+\]"
_RANGE = re.compile(r"\[[0-9]++[-,][0-9,/-]++\]")  # one number in brackets is Ansible's subscript
_BRACKETS = re.compile(r"\[[^\[\]]*+\]")
_COMMA_TERM = re.compile(rf"\s*+[!&]?~[^,]*+|(?:{_NUMBERS}|[^,])++")
_EXPRESSION = re.compile("[!&]?~")
_COLON_TERM = re.compile(r"(?:[^\s:\[\]]|\[[^\[\]]*+\])++")
_PLAIN_NAME = re.compile(r"[\w./-]++")
_RANGE_NAME = re.compile(rf"(?:[\w./-]|{_NUMBERS})++")
# Wildcards around one-digit ranges: `rack[1-3]*` means the same to us and to Ansible.
_WILDCARD = re.compile(r"(?:[^\[\]]|\[[0-9]-[0-9]\])*+(?<!\])")
_SUBSCRIPT = re.compile(r"\[(?:-?[0-9]+|[0-9]+[:-][0-9]*)\]\Z")

Host = TypeVar("Host")


@dataclass(frozen=True)
class HostTerm:
    """One term of a pattern: its operator, its text, and the names that its ranges mean (empty: Ansible's own)."""

    operator: str
    text: str
    names: tuple[str, ...] = ()

    @property
    def is_expression(self) -> bool:
        """True for a regular expression, in which nothing is a range."""
        return self.text.startswith("~")

    @property
    def has_range(self) -> bool:
        """True if a range is to be expanded: it is not in an expression, and a wildcard does not mean the same."""
        is_wildcard = not {"*", "?"}.isdisjoint(self.text) and _WILDCARD.fullmatch(self.text)
        return not self.is_expression and not is_wildcard and _RANGE.search(self.text) is not None

    @property
    def ansible_text(self) -> str:
        """Return the term for Ansible. A range is one expression: ``&a,&b`` would be the intersection of both."""
        return self.operator + (f"~{build_alternation(sorted(self.names))}\\Z" if self.names else self.text)

    @property
    def base_text(self) -> str:
        """Return what must match a host or group: the term without operator and subscript."""
        return self.text if self.is_expression or self.names else _SUBSCRIPT.sub("", self.text)


@dataclass(frozen=True)
class HostPattern:
    """A pattern as text and as its terms, in the order in which they were written."""

    text: str
    terms: tuple[HostTerm, ...]
    option: str = "--limit"

    @cached_property
    def range_names(self) -> frozenset[str]:
        """Return the names that the pattern's ranges mean."""
        return frozenset(name for term in self.terms for name in term.names)

    @property
    def ansible_limit(self) -> str:
        """Return the pattern for ``--limit``: unchanged if it has no range. InputError if no program can take it."""
        limit = ",".join(term.ansible_text for term in self.terms) if self.range_names else self.text
        if len(limit.encode()) > LONGEST_ARGUMENT:
            problem = f"{_quote(self.text)} is longer than {LONGEST_ARGUMENT:,} bytes"
            raise InputError(problem, where=self.option, remedy="name groups or ranges")
        return limit

    @property
    def union_limit(self) -> str:
        """Return the pattern without its operators and subscripts: the hosts that they leave some of."""
        included = (
            term.ansible_text if term.names else term.base_text for term in self.terms if not term.operator
        )
        return ",".join(included) or "all"

    @property
    def has_selection(self) -> bool:
        """True if an operator or a subscript leaves some of the hosts."""
        return any(term.operator or term.base_text != term.text for term in self.terms)

    @property
    def names(self) -> set[str]:
        """Return every name in the pattern; InputError for a term that needs Ansible's inventory."""
        return {name for term in self.terms for name in term.names or (self._require_name(term),)}

    def combine(self, find_hosts: Callable[[str], set[Host]]) -> set[Host]:
        """Return the hosts of the terms' names: first the union, then the intersections, then the exclusions.

        ``find_hosts`` returns the hosts of one name. InputError for a pattern that only excludes, so that a change of
        nodes never means all others; CheckFailed if no host is left.
        """
        found: dict[str, list[set[Host]]] = {"": [], "&": [], "!": []}
        for term in self.terms:
            names = term.names or (self._require_name(term),)
            found[term.operator].append(set().union(*map(find_hosts, names)))
        if not found[""]:
            raise InputError(
                f"{_quote(self.text)} names no node to take", where=self.option, remedy=NAMES_REMEDY
            )
        hosts: set[Host] = set().union(*found[""]).intersection(*found["&"]).difference(*found["!"])
        if not hosts:
            raise CheckFailed(f"{self.option}: {_quote(self.text)} leaves no node")
        return hosts

    def _require_name(self, term: HostTerm) -> str:
        if term.is_expression or not {"*", "?", "["}.isdisjoint(term.text):
            problem = f"{_quote(term.text)} is not a name or a range of names"
            raise InputError(problem, where=self.option, remedy=NAMES_REMEDY)
        return term.text


def parse_host_pattern(text: str, option: str = "--limit") -> HostPattern:
    """Return the terms of a pattern; InputError, before anything is expanded, for over ``MAX_NAMES`` names."""
    terms = [_parse_term(raw, option) for raw in _split_terms(text, option)]
    if not terms:
        remedy = "name hosts or groups; all means every host" if option == "--limit" else "name nodes"
        raise InputError("names no host", where=option, remedy=remedy)
    if len(text) > LONGEST_LIST and all(
        not term.operator and _PLAIN_NAME.fullmatch(term.text) for term in terms
    ):
        return HostPattern(text, (HostTerm("", text, tuple(term.text for term in terms)),), option)
    try:
        _require_few_names(text, terms, option)
        return HostPattern(text, tuple(_expand_ranges(term) for term in terms), option)
    except InputError as error:
        raise InputError(error.problem, where=option, remedy=error.remedy) from None


def _require_few_names(text: str, terms: Sequence[HostTerm], option: str) -> None:
    if sum(count_names_at_most(term.text) for term in terms if term.has_range) > MAX_NAMES:
        problem = f"{_quote(text)} expands to more than {MAX_NAMES:,} names"
        raise InputError(problem, where=option, remedy="write a smaller range")


def parse_host_patterns(texts: Sequence[str], option: str = "NODE") -> HostPattern:
    """Return several patterns as one, which has the terms of all: ``blade[01-03] !blade02``."""
    patterns = [parse_host_pattern(text, option) for text in texts]
    terms = tuple(term for pattern in patterns for term in pattern.terms)
    _require_few_names(",".join(texts), terms, option)
    joined = ",".join(term.operator + term.text for term in terms)
    return patterns[0] if len(patterns) == 1 else HostPattern(joined, terms, option)


def build_alternation(names: Sequence[str]) -> str:
    """Return a regular expression that matches sorted names; common beginnings are written once.

    Matching takes time by the length of a name, not by the number of names. It has no comma, colon or bracket, at
    which Ansible splits.
    """
    if len(names) == 1:
        return re.escape(names[0])
    pairs = enumerate(zip(names[0], names[-1], strict=False))
    length = next((at for at, (first, last) in pairs if first != last), len(names[0]))
    rests = groupby((name[length:] for name in names), key=lambda rest: rest[:1])
    alternatives = "|".join(build_alternation(list(group)) for _, group in rests)
    return f"{re.escape(names[0][:length])}({alternatives})"


def _split_terms(text: str, option: str) -> list[str]:
    """Split as Ansible does, except that a comma between the numbers of a range does not separate terms."""
    pieces = _COMMA_TERM.findall(text)
    if sum(map(len, pieces)) < len(text):
        return [piece.strip() for piece in pieces if piece.strip()]
    if _is_ipv6_address(text.strip()):
        return [text.strip()]
    terms = _COLON_TERM.findall(text)
    if re.sub(r"[\s:]", "", text) != re.sub(r"[\s:]", "", "".join(terms)):
        raise InputError(f"{_quote(text)} has a bracket without its pair", where=option, remedy=RANGE_REMEDY)
    if len(terms) > 1 and terms[-1].isdigit():  # `host:22` is one term to Ansible, `group_:22` two
        raise InputError(
            f"{_quote(text)} ends with a port", where=option, remedy="separate names with commas"
        )
    if any(_EXPRESSION.match(term) and "," in term for term in terms):
        raise InputError(
            f"{_quote(text)} has a comma in a regular expression",
            where=option,
            remedy="Ansible splits at commas",
        )
    return terms


def _parse_term(raw: str, option: str) -> HostTerm:
    term = HostTerm(raw[0], raw[1:]) if raw[0] in "!&" else HostTerm("", raw)
    if term.text in ("", "~"):
        raise InputError(f"{_quote(raw)} has no name", where=option, remedy="write a name after the operator")
    problem = _find_expression_problem(term.text) if term.is_expression else _find_term_problem(term.text)
    if problem:
        raise InputError(f"{_quote(raw)} {problem[0]}", where=option, remedy=problem[1])
    return term


def _expand_ranges(term: HostTerm) -> HostTerm:
    if not term.has_range:
        return term
    if not _RANGE_NAME.fullmatch(term.text) or not all(map(_RANGE.fullmatch, _BRACKETS.findall(term.text))):
        raise InputError(f"{_quote(term.text)} combines a range with something else", remedy=RANGE_REMEDY)
    return replace(term, names=expand_name_range(term.text, MAX_NAMES))


def _find_expression_problem(text: str) -> tuple[str, str] | None:
    """Return a colon that separates nothing, except in ``(?:``, and the remedy."""
    return MIXED_SEPARATORS if re.search(r"(?<!\?):", _BRACKETS.sub("", text)) else None


def _find_term_problem(text: str) -> tuple[str, str] | None:
    """Return what is wrong with a term that Ansible would not find, or would read in another way, and the remedy."""
    outside = _BRACKETS.sub("", text)
    if text.startswith("@"):
        return "is a file of names", 'write the names: "$(paste -sd, FILE)"'
    if text.startswith("-"):  # ansible-playbook would read it as an option
        return "begins with a dash", "write a name"
    if "[" in outside or "]" in outside:
        return "has a bracket without its pair", RANGE_REMEDY
    if ":" in outside and not _is_ipv6_address(text):
        return MIXED_SEPARATORS
    if any(character.isspace() for character in text):
        return "has a blank", "separate names with commas"
    return None


def _is_ipv6_address(text: str) -> bool:
    try:
        return bool(IPv6Address(text))
    except AddressValueError:
        return False


def _quote(text: str) -> str:
    return make_printable(text, 60)
