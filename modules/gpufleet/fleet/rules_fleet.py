"""Rules on the spec as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, collapse_addresses

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet.document import KeyPath, SpecProblem
from gpufleet.fleet.rule import SPEC_RULES
from gpufleet.fleet.spec import FleetSpec


@SPEC_RULES.register_rule(
    "unique-names",
    reason="pools, workstations and racks share one name space: groups and hosts are named after them",
    source="Ansible group and host names, tag gpufleet-pool",
)
def check_unique_names(spec: FleetSpec) -> Iterator[SpecProblem]:
    seen: dict[str, str] = {}
    for kind in ("pools", "workstations", "racks"):
        for index, item in enumerate(getattr(spec, kind)):
            if item.name in seen:
                text = f"{item.name!r} is also the name of {seen[item.name]}"
                yield SpecProblem((kind, index, "name"), text, "choose another name")
            seen[item.name] = f"{kind}[{index}]"


@SPEC_RULES.register_rule(
    "template-exists",
    reason="a template must be declared under templates",
    source="the spec",
)
def check_template_exists(spec: FleetSpec) -> Iterator[SpecProblem]:
    for kind in ("pools", "workstations", "racks"):
        for index, item in enumerate(getattr(spec, kind)):
            if item.template is not None and item.template not in spec.templates:
                known = ", ".join(sorted(spec.templates)) or "none is declared"
                yield SpecProblem(
                    (kind, index, "template"),
                    f"template {item.template!r} is not declared",
                    f"templates: {known}",
                )


@SPEC_RULES.register_rule(
    "ssh-not-public",
    reason="SSH must not be open to every address",
    source="our own policy",
)
def check_ssh_not_public(spec: FleetSpec) -> Iterator[SpecProblem]:
    key: KeyPath = ("ssh", "allowed_cidrs")
    remedy = "give the networks that you work from"
    networks = spec.ssh.allowed_cidrs
    for index, network in enumerate(networks):
        if network.prefixlen == 0:
            yield SpecProblem((*key, index), f"{network} covers every address", remedy)
    if any(network.prefixlen == 0 for network in networks):
        return
    # Merged too: two halves together are every address.
    merged_networks: tuple[IPv4Network | IPv6Network, ...] = (
        *collapse_addresses(network for network in networks if isinstance(network, IPv4Network)),
        *collapse_addresses(network for network in networks if isinstance(network, IPv6Network)),
    )
    for covered_range in merged_networks:
        if covered_range.prefixlen == 0:
            yield SpecProblem(key, f"together the networks cover {covered_range}, every address", remedy)


@SPEC_RULES.register_rule(
    "key-for-nodes",
    reason="a cloud node without an SSH key cannot be reached",
    source="our own policy: password logins are off",
)
def check_ssh_key_present(spec: FleetSpec) -> Iterator[SpecProblem]:
    if spec.pools and not spec.ssh.authorized_keys:
        yield SpecProblem(
            ("ssh", "authorized_keys"),
            "the list of SSH keys is empty, but there are pools",
            "give a public key",
        )


@SPEC_RULES.register_rule(
    "workstation-known",
    reason="a machine that is not in the catalogue cannot be checked",
    source="catalog/data/machines.csv",
)
def check_workstation_machine_known(spec: FleetSpec) -> Iterator[SpecProblem]:
    for index, station in enumerate(spec.workstations):
        try:
            catalog.get_machine(station.machine, "onprem")
        except InputError as error:
            yield SpecProblem(("workstations", index, "machine"), error.problem, error.remedy)
