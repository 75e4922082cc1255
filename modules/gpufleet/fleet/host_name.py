"""Host names and addresses: each is declared once in a project, so that Ansible reaches the right machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import decode_plain_yaml, make_printable, read_text
from gpufleet.boundary.name_range import fold_names_to_ranges
from gpufleet.errors import InputError
from gpufleet.fleet.document import SpecProblem, read_yaml_document
from gpufleet.fleet.pool_request import MAX_NODES
from gpufleet.fleet.rack import Rack, RackNode
from gpufleet.fleet.rack_file import load_racks, project_relative_path, read_rack_document

CONFIG_KEY = "gpufleet:fleet"
RESERVED = frozenset(("all", "localhost", "missing", "ungrouped"))
"""Names with a special meaning in Ansible or in the inventory."""


@dataclass(frozen=True)
class HostNameDeclaration:
    """Host names that one part of a file declares: the nodes of a rack, or a stack's workstations or pools."""

    path: Path
    label: str
    key: str
    names: tuple[str, ...]


def check_unique_host_names(declarations: Iterable[HostNameDeclaration]) -> None:
    """Raise InputError, naming both places, where two declarations share a name, or where one is reserved.

    A workstation is known by its name alone, so that several stacks may declare the same one.
    """
    places: dict[str, HostNameDeclaration] = {}
    for declaration in declarations:
        shared_names: dict[str, HostNameDeclaration] = {}
        for name in declaration.names:
            if name in RESERVED:
                raise _build_error(
                    declaration, f"{name!r} is reserved by Ansible", "give the node another name"
                )
            earlier = places.setdefault(name, declaration)
            if earlier is not declaration and not earlier.key == declaration.key == "workstations":
                shared_names[name] = earlier
        if shared_names:
            earlier = next(iter(shared_names.values()))
            names = _fold_names(name for name, place in shared_names.items() if place is earlier)
            problem = f"{names} is also declared in {earlier.label}: {earlier.key}"
            raise _build_error(declaration, problem, "rename the nodes in one of the two files")


def check_unique_node_addresses(racks: Mapping[Path, Rack], root: Path) -> None:
    """Raise InputError, naming both nodes and files, where nodes of two racks share an address, a MAC or a serial.

    The address of a BMC is nobody else's either, unless it serves several systems. Reading a rack checks its own nodes.
    """
    owners: dict[tuple[str, str | None], tuple[str, Path]] = {}
    for path, rack in racks.items():
        for node in rack.nodes:
            for part, value, system in _list_unique_values(node):
                owner = f"{part} of {node.name}"
                earlier, earlier_path = owners.setdefault((value.lower(), system), (owner, path))
                if earlier != owner:
                    place = project_relative_path(earlier_path, root)
                    problem = f"{value} is the {owner} and, in {place}, the {earlier}"
                    remedy = "give each its own: network.cidr, slot or address"
                    if not part.endswith("address"):
                        remedy = f"correct the {part} of one"
                    raise read_rack_document(path, root).build_input_error(
                        SpecProblem(rack.path_of_node(node.name), problem, remedy)
                    )


def _list_unique_values(node: RackNode) -> Iterator[tuple[str, str, str | None]]:
    """Yield what no two nodes may share: what it is, its value, and the system that a shared BMC has at it."""
    for part in ("address", "mac", "serial"):
        if value := getattr(node, part):
            yield part, value, None
    if node.bmc:
        yield "BMC address", node.bmc.address, node.bmc.system


def list_rack_host_declarations(racks: Mapping[Path, Rack], root: Path) -> Iterator[HostNameDeclaration]:
    """Yield the host names of rack files."""
    for path, rack in racks.items():
        yield HostNameDeclaration(
            path, project_relative_path(path, root), "nodes", tuple(node.name for node in rack.nodes)
        )


def list_stack_host_declarations(root: Path) -> Iterator[HostNameDeclaration]:
    """Yield the host names of all stack files; loading that stack reports its mistakes."""
    for path in sorted((root / "stacks").glob("Pulumi.*.yaml")):
        spec = _read_spec(path)
        if isinstance(spec, Mapping):
            yield from _spec_declarations(
                path, project_relative_path(path, root), path.name.split(".")[1], spec
            )


def list_rack_stacks(root: Path) -> dict[str, set[str]]:
    """Return the stacks that name each rack, as far as their files can be read; racks of no stack are left out."""
    stacks: dict[str, set[str]] = {}
    for path in (root / "stacks").glob("Pulumi.*.yaml"):
        spec = _read_spec(path)
        for use in only_mappings(spec.get("racks") if isinstance(spec, Mapping) else None):
            stacks.setdefault(str(use.get("name")), set()).add(path.name.split(".")[1])
    return stacks


def check_project_host_names(
    root: Path, stack: str = "", spec: Mapping[str, Any] | None = None, where: str = ""
) -> None:
    """Check the host names of a project: its rack files that can be read, its stacks, and ``spec`` as one of them.

    ``spec`` stands for the stack's own file, which may be another or none at all.
    """
    # A broken rack file is reported when its rack is loaded.
    racks = load_racks(root / "inventory", root, skip_broken=True)
    stacks = [
        declaration
        for declaration in list_stack_host_declarations(root)
        if declaration.path.name != f"Pulumi.{stack}.yaml"
    ]
    if spec is not None:
        stack_file = root / (where or f"stacks/Pulumi.{stack}.yaml")
        stacks += _spec_declarations(stack_file, project_relative_path(stack_file, root), stack, spec)
    check_unique_host_names([*list_rack_host_declarations(racks, root), *stacks])
    check_unique_node_addresses(racks, root)


def find_pool_line(path: Path, pool: str) -> int | None:
    """Return the line of a stack's file at which a pool begins."""
    document = read_yaml_document(path, path.name)
    pools = document.plain_data["config"][CONFIG_KEY]["pools"]
    index = next(index for index, item in enumerate(pools) if item["name"] == pool)
    return document.find_key_line(("config", CONFIG_KEY, "pools", index))


def pool_node_name_prefix(stack: str, pool: str) -> str:
    """Return what the names of a pool's nodes start with: two stacks may share an account."""
    return f"{slugify(stack)}-{pool}"


def slugify(text: str) -> str:
    """Return ``text`` in the letters that every cloud takes in names and labels."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")


def _read_spec(path: Path) -> Any:
    try:
        document = decode_plain_yaml(read_text(path), path.name)
    except InputError:
        return None
    config = document.get("config") if isinstance(document, Mapping) else None
    return config.get(CONFIG_KEY) if isinstance(config, Mapping) else None


def _spec_declarations(
    path: Path, label: str, stack: str, spec: Mapping[str, Any]
) -> Iterator[HostNameDeclaration]:
    stations = [item.get("name") for item in only_mappings(spec.get("workstations"))]
    pools = [name for pool in only_mappings(spec.get("pools")) for name in _pool_node_names(stack, pool)]
    for key, names in (("workstations", stations), ("pools", pools)):
        yield HostNameDeclaration(path, label, key, tuple(name for name in names if isinstance(name, str)))


def only_mappings(items: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list in a file that nobody has checked yet; none of anything else."""
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list | tuple) else []


def _pool_node_names(stack: str, pool: Mapping[str, Any]) -> Iterator[str]:
    """Give the names of a pool's nodes where their number is fixed; elastic groups name theirs by the cloud's ids."""
    count = pool.get("count")
    if isinstance(count, Mapping):
        count = count.get("desired", count.get("min")) if count.get("min") == count.get("max") else None
    if isinstance(count, int) and not isinstance(count, bool) and isinstance(pool.get("name"), str):
        prefix = pool_node_name_prefix(stack, pool["name"])
        yield from (f"{prefix}-{number + 1}" for number in range(min(count, MAX_NODES)))


def _fold_names(names: Iterable[str]) -> str:
    return make_printable(fold_names_to_ranges(names), 120)


def _build_error(declaration: HostNameDeclaration, problem: str, remedy: str) -> InputError:
    if declaration.key != "nodes":
        key, where = f"{CONFIG_KEY}.{declaration.key}", declaration.label
        if declaration.path.is_file():
            line = read_yaml_document(declaration.path, where).find_key_line(
                ("config", CONFIG_KEY, declaration.key)
            )
            where = f"{where}:{line}"
        return InputError(problem, where=where, key=key, remedy=remedy)
    return read_rack_document(declaration.path, declaration.path.parent.parent).build_input_error(
        SpecProblem(("nodes",), problem, remedy)
    )
