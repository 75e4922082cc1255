"""Host names: each is declared in one place of a project, or Ansible would reach another machine under it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

from gpufleet.boundary import decode_yaml, decode_yaml_subset, printable, read_text
from gpufleet.errors import InputError
from gpufleet.fleet.document import Problem
from gpufleet.fleet.rack import Rack
from gpufleet.fleet.rack_file import label_of, load_racks, rack_document
from gpufleet.fleet.request import MOST_NODES
from gpufleet.fleet.spec import Spec

KEY = "gpufleet:fleet"
RESERVED = frozenset(("all", "localhost", "missing", "ungrouped"))
"""Names that Ansible or the inventory gives a meaning of its own."""


@dataclass(frozen=True)
class Declaration:
    """Host names that one part of a file declares: the nodes of a rack, or a stack's workstations or pools."""

    path: Path
    label: str
    key: str
    names: tuple[str, ...]


def check_host_names(declarations: Iterable[Declaration]) -> None:
    """Raise InputError, naming both places, where two declarations share a name, or where one is reserved.

    A workstation is known by its name alone, so that several stacks may declare the same one.
    """
    places: dict[str, Declaration] = {}
    for here in declarations:
        shared: dict[str, Declaration] = {}
        for name in here.names:
            if name in RESERVED:
                raise _error(
                    here, f"{name!r} has a meaning of its own in Ansible", "give the node another name"
                )
            there = places.setdefault(name, here)
            if there is not here and not there.key == here.key == "workstations":
                shared[name] = there
        if shared:
            there = next(iter(shared.values()))
            names = _folded(name for name, place in shared.items() if place is there)
            problem = f"{names} is also declared in {there.label}: {there.key}"
            raise _error(here, problem, "give the nodes in one of the two files other names")


def rack_declarations(racks: Mapping[Path, Rack], root: Path) -> Iterator[Declaration]:
    """Give the host names of rack files."""
    for path, rack in racks.items():
        yield Declaration(path, label_of(path, root), "nodes", tuple(node.name for node in rack.nodes))


def stack_declarations(root: Path) -> Iterator[Declaration]:
    """Give the host names of all stack files; what is wrong in them is for the reader of that stack to say."""
    for path in sorted((root / "stacks").glob("Pulumi.*.yaml")):
        spec = _read_spec(path)
        if isinstance(spec, Mapping):
            yield from _of_stack(path, label_of(path, root), path.name.split(".")[1], spec)


def check_project(root: Path, stack: str = "", spec: Spec | None = None, where: str = "") -> None:
    """Check the host names of a project: its rack files that can be read, its stacks, and ``spec`` as one of them.

    ``spec`` stands for the stack's own file, which may be another or none at all.
    """
    # A broken rack file is said by whoever needs that rack.
    racks = load_racks(root / "inventory", root, skip_broken=True)
    stacks = [one for one in stack_declarations(root) if one.path.name != f"Pulumi.{stack}.yaml"]
    if spec is not None:
        own = root / "stacks" / f"Pulumi.{stack}.yaml"
        declared = spec.model_dump(include={"pools", "workstations"})
        stacks += _of_stack(own, where or label_of(own, root), stack, declared)
    check_host_names([*rack_declarations(racks, root), *stacks])


def pool_prefix(stack: str, pool: str) -> str:
    """Return what the names of a pool's nodes start with: two stacks may share an account."""
    return f"{slug(stack)}-{pool}"


def slug(text: str) -> str:
    """Return ``text`` in the letters that every cloud takes in names and labels."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")


def _read_spec(path: Path) -> Any:
    try:
        text = read_text(path)
        value = decode_yaml_subset(text)
        whole = decode_yaml(text, path.name) if value is None else value
    except InputError:
        return None
    config = whole.get("config") if isinstance(whole, Mapping) else None
    return config.get(KEY) if isinstance(config, Mapping) else None


def _of_stack(path: Path, label: str, stack: str, spec: Mapping[str, Any]) -> Iterator[Declaration]:
    stations = [item.get("name") for item in _mappings(spec.get("workstations"))]
    pools = [name for pool in _mappings(spec.get("pools")) for name in _pool_nodes(stack, pool)]
    for key, names in (("workstations", stations), ("pools", pools)):
        yield Declaration(path, label, key, tuple(name for name in names if isinstance(name, str)))


def _mappings(items: Any) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list | tuple) else []


def _pool_nodes(stack: str, pool: Mapping[str, Any]) -> Iterator[str]:
    """Give the names of a pool's nodes where their number is fixed; elastic groups name theirs by the cloud's ids."""
    count = pool.get("count")
    if isinstance(count, Mapping):
        count = count.get("desired") if count.get("min") == count.get("max") else None
    if isinstance(count, int) and not isinstance(count, bool) and isinstance(pool.get("name"), str):
        prefix = pool_prefix(stack, pool["name"])
        yield from (f"{prefix}-{number + 1}" for number in range(min(count, MOST_NODES)))


def _folded(names: Iterable[str]) -> str:
    return printable(str(NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP)), 120)


def _error(here: Declaration, problem: str, remedy: str) -> InputError:
    if here.key != "nodes":
        return InputError(problem, where=here.label, key=f"{KEY}.{here.key}", remedy=remedy)
    return rack_document(here.path, here.path.parent.parent).error(Problem(("nodes",), problem, remedy))
