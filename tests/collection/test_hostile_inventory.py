"""Test that values reported by nodes and clouds are never executed on the controller."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.nodes.inventory import build_ansible_inventory

HEADER = "#jinja2:variable_start_string:'[[',variable_end_string:']]'\n"
BAD_ADDRESSES = ("-oProxyCommand=touch {mark}", "198.18.1.1 -oProxyCommand=touch {mark}", "x;touch {mark}")
BAD_NAMES = ("-oProxyCommand=x", "a b", "x;id", "localhost", "all", "kind_cloud_vm", "{{ 1 }}", "a,b")


@pytest.fixture
def registry(rack_project):
    """Give the project's own registry, with the racks of production."""
    from gpufleet.operations.sync import register_declared_racks

    with Registry(f"sqlite:///{rack_project / '.gpufleet' / 'registry.db'}") as open_registry:
        register_declared_racks(open_registry, rack_project, "production", datetime.now(UTC))
        yield open_registry


@pytest.fixture
def write_node_row(registry):
    """Change a node's row past every check on input: a registry may be older than those."""
    from sqlalchemy import update

    from gpufleet.nodes import schema

    def change(node, **values):
        with registry._writing() as connection:
            connection.execute(update(schema.node).where(schema.node.c.name == node).values(**values))

    return change


@pytest.fixture
def add_cloud_node(registry):
    """Add a node that a cloud names."""

    def add(name, **observed):
        declared = {"kind": "cloud_vm", "cloud": "aws"}
        seen = NodeObservation("pulumi:dev", name, NodeIdentity(instance_id=f"i-{name}"), declared, observed)
        registry.apply_observation(seen)

    return add


def payloads(mark):
    command = f"lookup('pipe', 'touch {mark}')"
    return {
        "header": f"{HEADER}[[ {command} ]]",
        "braces": f"{{{{ {command} }}}}",
        "statement": f"{{% set x = {command} %}}",
        "blanks": f"  {{{{ {command} }}}}",
    }


def debug(ansible, what, limit="blade07"):
    return ansible("ansible", "-i", "inventory", limit, "-m", "debug", "-a", what)


def test_templates_in_observed_values_are_not_evaluated_on_the_controller(ansible, write_node_row, tmp_path):
    mark = tmp_path / "mark"
    forms = payloads(mark)
    keys = ("serial", "pool", "region", "template", "machine")
    attacks = [(key, text) for key in keys for text in forms.values()]
    for number, (key, text) in enumerate(attacks, start=1):
        write_node_row(f"blade{number:02}", **{key: text})
    templates = [f"{{{{ gpufleet_{key} | default('') }}}}" for key in keys]
    result = debug(ansible, json.dumps({"msg": templates}), "all")
    assert not mark.exists()
    assert "bench01 | SUCCESS" in result.stdout
    refused = {f"blade{number:02}" for number, (key, _) in enumerate(attacks, start=1) if key != "machine"}
    assert {name for name in refused if f"{name} is left out" in result.stderr} == refused
    # A machine of the operator's own may be called anything: it stays, as text.
    assert "blade18 | SUCCESS" in result.stdout
    assert "\nblade01 | SUCCESS" not in f"\n{result.stdout}"


def test_only_observed_text_is_marked_untrusted(rack_project, registry, add_cloud_node):
    add_cloud_node("web-1", address="203.0.113.7")
    registry.apply_observation(
        NodeObservation("ssh", "blade07", NodeIdentity(serial="10000000abcd0007", rack="blades-1", slot="7"))
    )
    hosts = {
        host.name: host
        for host in build_ansible_inventory(
            rack_project, f"sqlite:///{rack_project}/.gpufleet/registry.db"
        ).hosts
    }
    assert hosts["web-1"].observed == {
        "ansible_host": "203.0.113.7", "gpufleet_name": "web-1", "gpufleet_cloud": "aws"
    }  # fmt: skip
    assert hosts["blade07"].observed == {"gpufleet_serial": "10000000abcd0007"}
    assert hosts["blade07"].vars["gpufleet_rack"] == "blades-1"


def test_outdated_declared_value_in_the_registry_is_untrusted(rack_project, registry):
    file = rack_project / "inventory/blades-1.yaml"
    file.write_text(
        file.read_text().replace("10.20.1.0/24", "10.99.1.0/24").replace("10.20.1.1", "10.99.1.1")
    )
    hosts = {
        host.name: host
        for host in build_ansible_inventory(
            rack_project, f"sqlite:///{rack_project}/.gpufleet/registry.db"
        ).hosts
    }
    assert hosts["blade07"].observed == {"ansible_host": "10.20.1.17"}


def test_untrusted_values_can_be_used_without_a_warning(ansible, add_cloud_node):
    add_cloud_node("web-1", address="203.0.113.7")
    result = debug(ansible, "msg={{ ansible_host ~ '!' }}", "web-1")
    assert '"msg": "203.0.113.7!"' in result.stdout
    assert result.stderr == ""


def test_invalid_address_is_never_passed_to_ssh(ansible, write_node_row, tmp_path):
    mark = tmp_path / "mark"
    for number, address in enumerate(BAD_ADDRESSES, start=1):
        write_node_row(f"blade{number:02}", address=address.format(mark=mark))
    result = ansible("ansible", "-i", "inventory", "blade01:blade02:blade03", "-m", "ping", "-T", "2")
    assert not mark.exists()
    assert [f"blade0{n} is left out: its address" in result.stderr for n in (1, 2, 3)] == [True] * 3
    assert "No hosts matched" in result.stderr


def test_invalid_name_is_omitted_and_other_hosts_stay(
    list_inventory, ansible, add_cloud_node, write_node_row
):
    add_cloud_node("good-1", address="203.0.113.7")
    for number, name in enumerate(BAD_NAMES):
        add_cloud_node(f"bad-{number}", address="203.0.113.8")
        write_node_row(f"bad-{number}", name=name)
    inventory = list_inventory()
    addresses = [facts.get("ansible_host") for facts in inventory["_meta"]["hostvars"].values()]
    assert {"__ansible_unsafe": "203.0.113.7"} in addresses
    assert "203.0.113.8" not in json.dumps(inventory)
    stderr = " ".join(ansible("ansible-inventory", "-i", "inventory", "--graph").stderr.split())
    assert stderr.count("is left out: ") == len(BAD_NAMES)


def test_single_rack_file_gives_the_same_warnings(ansible, write_node_row):
    write_node_row("blade07", address="-oProxyCommand=x")
    result = ansible("ansible-inventory", "-i", "inventory/blades-1.yaml", "--graph")
    assert "blade07 is left out" in result.stderr
    assert "blade08" in result.stdout
    assert "blade07" not in result.stdout


def test_compose_and_keyed_groups_do_not_evaluate_observed_values(
    rack_project, ansible, add_cloud_node, tmp_path
):
    mark = tmp_path / "mark"
    (rack_project / "inventory/gpufleet.yaml").write_text(
        "plugin: gpufleet.fleet.nodes\n"
        "compose: {copied: gpufleet_name ~ ''}\n"
        "keyed_groups: [{prefix: at, key: ansible_host}]\n"
        "groups: {odd: \"'[[' in gpufleet_name\"}\n"
    )
    add_cloud_node("web-1", address="203.0.113.7")
    result = debug(ansible, "msg={{ copied }}", "at_203_0_113_7")
    assert '"msg": "web-1"' in result.stdout
    assert not mark.exists()


def test_template_in_a_stack_reaches_its_application_as_text(rack_project, ansible, registry, tmp_path):
    mark = tmp_path / "mark"
    stack = rack_project / "stacks/Pulumi.production.yaml"
    lookup = f"{{{{ lookup('pipe', 'touch {mark}') }}}}"
    (rack_project / "a.container").write_text(
        f"[Container]\nImage=a\nEnvironment=A='{lookup}' B='#jinja2: x'\n"
    )
    text = stack.read_text().replace(
        "      ci-runner:\n", "      ci-runner:\n        container_files: [a.container]\n"
    )
    assert text != stack.read_text()
    stack.write_text(text)
    completed = debug(ansible, "var=gpufleet_application")
    assert not mark.exists()
    assert "lookup('pipe'" in completed.stdout
