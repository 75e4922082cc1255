"""Mutations that cosmic-ray does not have: a lost option, element or statement.

They have the interface of cosmic-ray's own operators, so that one walk serves both.
"""

from __future__ import annotations

import parso
from cosmic_ray.operators.operator import Operator
from parso.python import tree

BRACKETS = {"[": "testlist_comp", "(": "testlist_comp", "{": "dictorsetmaker"}


class DropElement(Operator):
    """Take one element out of a list, tuple, set or dictionary, or a keyword out of a call."""

    def mutation_positions(self, node):
        for group in _groups(node):
            yield group[0].start_pos, group[-1].end_pos

    def mutate(self, node, index):
        dropped = list(_groups(node))[index]
        places = [node.children.index(position) for position in dropped]
        after = places[-1] + 1
        if after < len(node.children) and node.children[after] == ",":
            places.append(after)
        elif places[0] > 0 and node.children[places[0] - 1] == ",":
            places.insert(0, places[0] - 1)
        node.children = [child for place, child in enumerate(node.children) if place not in places]
        if len(node.children) == 1 and node.type == "testlist_comp" and node.parent.children[0] == "(":
            node.children.append(parso.python.tree.Operator(",", node.end_pos))  # a tuple stays one
        return node

    @classmethod
    def examples(cls):
        return ()


def _groups(node):
    """Yield the parts of each element that may go: one node, or key, colon and value."""
    if node.type == "arglist":
        yield from (
            [child] for child in node.children if child.type == "argument" and child.children[1] == "="
        )
        return
    if node.type not in ("testlist_comp", "dictorsetmaker") or not _is_display(node):
        return
    parts = []
    for child_node in [*node.children, ","]:
        if child_node != ",":
            parts.append(child_node)
            continue
        if parts:
            yield parts
        parts = []


def _is_display(node):
    opener = node.parent.children[0] if node.parent is not None else None
    loops = any(child.type in ("sync_comp_for", "comp_for") for child in node.children)
    return not loops and opener in ("[", "(", "{")


class DropStatement(Operator):
    """Replace a call made for its effect, a changed variable or a refusal by ``pass``."""

    def mutation_positions(self, node):
        if node.type == "simple_stmt" and _has_effect(node.children[0]):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        statement = node.children[0]
        node.children[0] = tree.Keyword("pass", statement.start_pos, statement.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls):
        return ()


def _has_effect(statement):
    if statement.type == "raise_stmt":
        return True
    if statement.type == "expr_stmt":
        target, operator = statement.children[:2]
        changed = operator.type == "operator" and operator.value != "="
        stored = operator == "=" and target.type in ("atom_expr", "power")
        return changed or stored
    return statement.type in ("atom_expr", "power") and statement.children[-1].type == "trailer"


class ChangeText(Operator):
    """Change a word that a program reads (an option, a key, a state): sentences for people are left alone."""

    def mutation_positions(self, node):
        if node.type == "string" and _is_word(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        quote = next(place for place, letter in enumerate(node.value) if letter in "'\"")
        opening = node.value[: quote + 1]
        return tree.String(f"{opening}XX{node.value[quote + 1 :]}", node.start_pos, node.prefix)

    @classmethod
    def examples(cls):
        return ()


def _is_word(node):
    text = node.value
    if text[0] not in "'\"" or text.startswith(('"""', "'''")):
        return False
    return 1 < len(text) - 2 <= 40 and " " not in text and "\\" not in text


class NegateMembership(Operator):
    """Swap ``in`` and ``not in``."""

    def mutation_positions(self, node):
        for membership in _memberships(node):
            yield membership.start_pos, membership.end_pos

    def mutate(self, node, index):
        operator = list(_memberships(node))[index]
        place = node.children.index(operator)
        swapped = " in" if operator.type == "comp_op" else " not in"
        node.children[place] = parso.parse(swapped)
        return node

    @classmethod
    def examples(cls):
        return ()


def _memberships(node):
    if node.type == "comparison":
        for child in node.children[1::2]:
            if child.get_code().strip() in ("in", "not in"):
                yield child


class DropFilter(Operator):
    """Let a comprehension take every element."""

    def mutation_positions(self, node):
        if node.type == "comp_if":
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node, index):
        node.children[1] = tree.Keyword("True", node.children[1].start_pos, " ")
        return node

    @classmethod
    def examples(cls):
        return ()


EXTRA = {
    "DropElement": DropElement,
    "DropStatement": DropStatement,
    "ChangeText": ChangeText,
    "NegateMembership": NegateMembership,
    "DropFilter": DropFilter,
}
