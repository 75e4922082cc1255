"""Rules on the spec as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, collapse_addresses

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet.document import Path_, Problem
from gpufleet.fleet.rule import spec_rule
from gpufleet.fleet.spec import Spec


@spec_rule(
    "unique-names",
    reason="pools, workstations and racks share one name space: groups and hosts are named after them",
    source="Ansible group and host names, tag gpufleet-pool",
)
def unique_names(spec: Spec) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for kind in ("pools", "workstations", "racks"):
        for index, item in enumerate(getattr(spec, kind)):
            if item.name in seen:
                text = f"{item.name!r} is also the name of {seen[item.name]}"
                yield Problem((kind, index, "name"), text, "choose another name")
            seen[item.name] = f"{kind}[{index}]"


@spec_rule(
    "template-exists",
    reason="a template must be declared under templates",
    source="the spec",
)
def template_exists(spec: Spec) -> Iterator[Problem]:
    for kind in ("pools", "workstations", "racks"):
        for index, item in enumerate(getattr(spec, kind)):
            if item.template is not None and item.template not in spec.templates:
                known = ", ".join(sorted(spec.templates)) or "none is declared"
                yield Problem(
                    (kind, index, "template"), f"no template {item.template!r}", f"templates: {known}"
                )


@spec_rule(
    "not-the-world",
    reason="SSH is not open to the world",
    source="our own policy",
)
def not_the_world(spec: Spec) -> Iterator[Problem]:
    key: Path_ = ("ssh", "allowed_cidrs")
    remedy = "give the networks you work from"
    given = spec.ssh.allowed_cidrs
    for index, network in enumerate(given):
        if network.prefixlen == 0:
            yield Problem((*key, index), f"{network} is the whole world", remedy)
    if any(network.prefixlen == 0 for network in given):
        return
    # Merged too: two halves are the world as well.
    merged: tuple[IPv4Network | IPv6Network, ...] = (
        *collapse_addresses(each for each in given if isinstance(each, IPv4Network)),
        *collapse_addresses(each for each in given if isinstance(each, IPv6Network)),
    )
    for whole in merged:
        if whole.prefixlen == 0:
            yield Problem(key, f"together they are {whole}, the whole world", remedy)


@spec_rule(
    "key-for-nodes",
    reason="a cloud node without an SSH key can't be reached by anybody",
    source="our own policy: password logins are off",
)
def key_for_nodes(spec: Spec) -> Iterator[Problem]:
    if spec.pools and not spec.ssh.authorized_keys:
        yield Problem(("ssh", "authorized_keys"), "is empty, but there are pools", "give a public key")


@spec_rule(
    "workstation-known",
    reason="what the catalogue does not know can't be checked",
    source="catalog/data/machines.csv",
)
def workstation_known(spec: Spec) -> Iterator[Problem]:
    for index, station in enumerate(spec.workstations):
        try:
            catalog.machine(station.machine, "onprem")
        except InputError as error:
            yield Problem(("workstations", index, "machine"), error.problem, error.remedy)
