"""The registry's nodes in the formats of other tools: OpenSSH, hosts files, spreadsheets, Slurm, Kubernetes.

A node whose name or address is not well-formed is left out, as in the inventory: what a node calls itself shall not
become an option of ssh or a line of slurm.conf.
"""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any

from gpufleet import paths
from gpufleet.nodes import Node
from gpufleet.nodes.host import find_identity_problem
from gpufleet.nodes.inventory import make_node_ssh_arguments
from gpufleet.nodes.model import latest_values_by_key
from gpufleet.operations.node_probe import SshLogin, find_ssh_login
from gpufleet.operations.node_view import NodeFilter, open_existing_registry

CSV_COLUMNS = (
    "name", "kind", "state", "holds", "reachable", "cloud", "account", "region", "pool", "rack", "slot", "machine",
    "accelerators", "address", "serial", "instance_id", "template", "usd_per_hour", "id",
)  # fmt: skip
LABEL_FIELDS = ("kind", "state", "cloud", "region", "pool", "rack", "template", "machine")
FORM_FACTOR = re.compile(r"(?i)(pcie|sxm\d?|nvl|oam|hbm\w*|\d+\s?gb)\b.*")
LONGEST_LABEL = 63  # characters; kubernetes.io, Labels and Selectors
MIB_PER_GIB = 1024


@dataclass(frozen=True)
class ExportedNodes:
    """The text in another tool's format, and a line for each node that it does not have."""

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExportContext:
    """What formats need besides the nodes: how to log in, and what the nodes report, by node id."""

    login: SshLogin
    observed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ssh_arguments: Callable[[Node], str | None] = lambda _: None


def export_registered_nodes(node_filter: NodeFilter, format_name: str) -> ExportedNodes:
    """Return the registry's live nodes in a format of ``FORMATS``."""
    with open_existing_registry() as registry:
        nodes = [node for node in node_filter.select_nodes(registry.list_nodes()) if node.state != "retired"]
        values = registry.list_values_by_node([node.id for node in nodes]) if format_name == "slurm" else {}
    observed = {node_id: latest_values_by_key(listed) for node_id, listed in values.items()}
    context = ExportContext(find_ssh_login(), observed, make_node_ssh_arguments(paths.find_project_root()))
    return export_nodes(nodes, format_name, context)


def export_nodes(nodes: Iterable[Node], format_name: str, context: ExportContext) -> ExportedNodes:
    """Return nodes in a format of ``FORMATS``. Pure."""
    fit, notes = [], []
    for node in nodes:
        if problem := find_identity_problem(node.name, node):
            notes.append(f"{node.id} is left out: {problem}")
        else:
            fit.append(node)
    write, needs_address = FORMATS[format_name]
    if needs_address:
        notes += [f"{node.name} is left out: it has no address" for node in fit if not node.address]
        fit = [node for node in fit if node.address]
    return ExportedNodes("".join(f"{line}\n" for line in write(fit, context)), tuple(notes))


def _write_csv(nodes: Sequence[Node], _: ExportContext) -> Iterator[str]:
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for node in nodes:
        cells = {
            "holds": " ".join(hold.kind for hold in node.holds),
            "accelerators": ", ".join(f"{card['count']}x {card['model']}" for card in node.accelerators),
            "reachable": {None: "", True: "yes", False: "no"}[node.reachable],
        }
        writer.writerow(
            [cells.get(name, "" if (value := getattr(node, name)) is None else value) for name in CSV_COLUMNS]
        )
    yield from target.getvalue().splitlines()


def _write_hosts(nodes: Sequence[Node], _: ExportContext) -> Iterator[str]:
    """Yield lines of hosts(5); a node that is reached by a name needs none."""
    for node in nodes:
        address = str(node.address)
        if _is_plain_ip(address):
            yield f"{address:<15} {node.name}"


def _is_plain_ip(address: str) -> bool:
    try:
        return not getattr(ip_address(address), "scope_id", None)
    except ValueError:
        return False


def _write_ssh_config(nodes: Sequence[Node], context: ExportContext) -> Iterator[str]:
    """Yield hosts of ssh_config(5); host keys stay strict."""
    from gpufleet.cloud.pool_plan import SSH_USER

    known_hosts = " ".join(map(_quote_ssh, map(str, context.login.known_hosts)))
    for node in nodes:
        yield f"Host {node.name}"
        yield f"    HostName {node.address}"
        yield f"    User {SSH_USER if node.cloud else context.login.user}"
        yield f"    IdentityFile {_quote_ssh(str(context.login.key))}"
        yield f"    UserKnownHostsFile {known_hosts}"
        yield "    StrictHostKeyChecking yes"
        arguments = shlex.split(context.ssh_arguments(node) or "")
        for option in arguments[1::2]:  # -o NAME=VALUE
            name, _, value = option.partition("=")
            yield f"    {name} {value}"


def _quote_ssh(path: str) -> str:
    """Return a path as ssh_config(5) takes it: percent signs doubled, in quotes where it has blanks."""
    escaped = path.replace("%", "%%")
    return f'"{escaped}"' if " " in escaped else escaped


def _write_slurm(nodes: Sequence[Node], context: ExportContext) -> Iterator[str]:
    """Yield lines of slurm.conf, one a node: a name that ends in a suffix cannot be folded (Slurm 22.05 to 24.11).

    CPUs and memory are what the node itself reported: slurmd drains a node that has less than its line says.
    """
    if any(node.accelerators for node in nodes):
        yield "# slurm.conf needs GresTypes=gpu as well"
    for node in nodes:
        observed = context.observed.get(node.id, {})
        cpus, memory = observed.get("observed.cpus"), observed.get("observed.memory_gib")
        gres = ",".join(f"gpu:{name}:{count}" for name, count in _count_slurm_gpus(node).items())
        features = [
            _clean_slurm(value) for name in LABEL_FIELDS if name != "state" and (value := getattr(node, name))
        ]
        settings = {
            "NodeName": node.name,
            "NodeAddr": node.address,
            "CPUs": cpus if isinstance(cpus, int) else None,
            # The registry rounds to 0.1 GiB.
            "RealMemory": int((memory - 0.1) * MIB_PER_GIB)
            if isinstance(memory, float) and memory > 1
            else None,
            "Gres": gres,
            "Feature": ",".join(dict.fromkeys(features)),
            "State": "UNKNOWN",
        }
        yield " ".join(f"{name}={value}" for name, value in settings.items() if value)


def _write_gres(nodes: Sequence[Node], _: ExportContext) -> Iterator[str]:
    """Yield lines of gres.conf: the cards are found by the vendors' libraries, and must be as slurm.conf says."""
    for node in nodes:
        for name in _count_slurm_gpus(node):
            library = "rsmi" if name.startswith(("mi", "radeon", "rx")) else "nvml"
            yield f"NodeName={node.name} AutoDetect={library} Name=gpu Type={name}"


def _count_slurm_gpus(node: Node) -> dict[str, int]:
    """Return the whole cards by type: a part of the name that NVML and ROCm SMI give, as AutoDetect wants it."""
    return {
        name_slurm_gpu(card["model"]): int(card["count"])
        for card in node.accelerators
        if int(card["count"]) >= 1
    }


def name_slurm_gpu(model: str) -> str:
    """Return the Gres type of a card of the catalogue: ``H100 SXM5 80GB`` is ``h100``."""
    return _clean_slurm(FORM_FACTOR.sub("", model).strip().lower())


def _clean_slurm(text: str) -> str:
    """Return text that jobs can ask for: other characters are taken, and no job can name them."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text)


def _write_kubernetes(nodes: Sequence[Node], _: ExportContext) -> Iterator[str]:
    """Yield commands of kubectl: a taint of ours beside those of others, which an applied manifest would replace."""
    for node in nodes:
        pairs = [(name, getattr(node, name)) for name in LABEL_FIELDS]
        labels = " ".join(
            f"gpufleet/{name}={label}" for name, value in pairs if value and (label := _make_label(value))
        )
        yield f"kubectl label node {node.name.lower()} --overwrite {labels}"
        if not node.is_usable:
            reason = node.holds[0].kind if node.holds else node.state
            taint = f"gpufleet/out-of-use={_make_label(reason)}:NoSchedule"
            yield f"kubectl taint node {node.name.lower()} --overwrite {taint}"


def _make_label(value: str) -> str:
    """Return a label's value: at most 63 of ``A-Za-z0-9-_.``, letters or digits at both ends."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", value)[:LONGEST_LABEL].strip("-_.")


FORMATS: Mapping[str, tuple[Callable[[Sequence[Node], ExportContext], Iterator[str]], bool]] = {
    "csv": (_write_csv, False),
    "hosts": (_write_hosts, True),
    "ssh-config": (_write_ssh_config, True),
    "slurm": (_write_slurm, True),
    "slurm-gres": (_write_gres, True),
    "kubernetes": (_write_kubernetes, False),
}
"""By name: what writes the lines, and whether a node needs an address for it."""
