from __future__ import annotations

import pytest

from gpufleet import fleet
from gpufleet.catalog import data_file
from gpufleet.errors import InputError

RACK = """\
plugin: gpufleet.fleet.rack
name: r1
kind: blades
site: lab
machine: Compute Blade CM4 8GB
storage_gb: 500
network: {cidr: 10.9.0.0/24}
nodes: blade[01-03]
"""


@pytest.fixture
def load_rack(tmp_path):
    """Load the rack file above after one replacement."""

    def run(old="", new=""):
        assert old in RACK
        file = tmp_path / "r1.yaml"
        file.write_text(RACK.replace(old, new, 1))
        return fleet.load_rack(file, tmp_path)

    return run


def test_range_expands_to_nodes_with_slots_and_addresses(load_rack):
    nodes = load_rack().nodes
    assert [(node.name, node.slot, node.address) for node in nodes] == [
        ("blade01", 1, "10.9.0.11"),
        ("blade02", 2, "10.9.0.12"),
        ("blade03", 3, "10.9.0.13"),
    ]
    assert nodes[0].storage_gib == pytest.approx(465.66, abs=0.01)


def test_entries_override_the_defaults_of_the_rack(load_rack):
    entries = (
        "nodes:\n  - {name: 'blade[01-02]'}\n  - {name: blade03, slot: 7, serial: 10000000abcd0003, "
        "address: 10.9.0.99, mac: '2c:cf:67:00:00:03', storage_gb: 250, machine: Raspberry Pi 5 8GB}"
    )
    first, second, third = load_rack("nodes: blade[01-03]", entries).nodes
    assert (first.serial, second.storage_gb, second.machine) == (None, 500, "Compute Blade CM4 8GB")
    assert (third.slot, third.serial, third.address) == (7, "10000000abcd0003", "10.9.0.99")
    assert (third.mac, third.storage_gb, third.machine) == ("2c:cf:67:00:00:03", 250, "Raspberry Pi 5 8GB")


def test_hardware_of_an_entry_wins_by_key(load_rack):
    entries = (
        "hardware: {memory_gib: 8, interfaces: 1}\nnodes:\n  - {name: 'blade[01-02]'}\n"
        "  - {name: blade03, hardware: {interfaces: 2, drives: 1, fabric: {kind: roce, adapters: 2}}}"
    )
    first, _, third = load_rack("nodes: blade[01-03]", entries).nodes
    assert first.hardware.list_declared_values() == {"memory_gib": 8, "interfaces": 1}
    assert third.hardware.list_declared_values() == {
        "memory_gib": 8, "interfaces": 2, "drives": 1, "fabric": {"kind": "roce", "adapters": 2},
    }  # fmt: skip


@pytest.mark.parametrize(("hardware", "drives"), [("", 1), ("hardware: {drives: 8}\n", 8)])
def test_storage_of_a_node_is_that_of_all_its_drives(load_rack, hardware, drives):
    first = load_rack("nodes: blade[01-03]", f"{hardware}nodes: blade[01-03]").nodes[0]
    assert first.all_storage_gib == pytest.approx(drives * 500 * 1e9 / 2**30)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hardware: {memory: 8}", "memory"),
        ("hardware: {drives: 0}", "hardware.drives"),
        ("hardware: {memory_gib: -1}", "hardware.memory_gib: is -1; give more than 0"),
        ("hardware: {fabric: {kind: efa, adapters: 1}}", "hardware.fabric.kind"),
        ("hardware: {fabric: {kind: roce}}", "hardware.fabric.adapters"),
        (
            "hardware: {fabric: {kind: roce, adapters: 1, devices: 'mlx5_[0-7]'}}",
            "names 8 devices, but adapters is 1",
        ),
        ("hardware: {fabric: {kind: roce, adapters: 1, devices: ''}}", "not a range of RDMA devices"),
        ("hardware: {fabric: {kind: roce, adapters: 1, devices: ../x}}", "not a range of RDMA devices"),
        ("hardware: {fabric: {kind: roce, adapters: 1, devices: 'a[0-99999999]'}}", "more than 1000 names"),
        ("hardware: {fabric: {kind: roce, adapters: 1, devices: 'a['}}", "not a range of names"),
    ],
)
def test_invalid_hardware_is_refused(load_rack, line, message):
    with pytest.raises(InputError) as error:
        load_rack("nodes: blade[01-03]", f"{line}\nnodes: blade[01-03]")
    assert message in str(error.value)
    assert not str(error.value).endswith(".0")


def test_number_of_drives_needs_their_size(load_rack):
    with pytest.raises(InputError, match=r"blade01 has hardware\.drives without storage_gb"):
        load_rack("storage_gb: 500", "hardware: {drives: 2}")


def test_several_ranges_and_steps_are_expanded(load_rack):
    nodes = load_rack("blade[01-03]", "blade[01-02,05-07/2]").nodes
    assert [node.slot for node in nodes] == [1, 2, 5, 7]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: blades", "kind: blade", "r1.yaml:3: kind: is 'blade'; did you mean 'blades'?"),
        (
            "machine: Compute Blade CM4 8GB",
            "machine: CM4",
            "r1.yaml:5: machine: unknown onprem machine 'CM4'",
        ),
        ("blade[01-03]", "blade[01-99999999]", "nodes: 'blade[01-99999999]' is more than 1000 names"),
        *(
            ("blade[01-03]", f"'a[{part}]'", f"{part!r} is not a number or range in the brackets")
            for part in (
                " 1-5000",
                "1 - 5000",
                "1- 5000",
                "+1-5000",
                "1-5_000",
                "1-\u0665\u0660\u0660\u0660",
                "100000000000000000-100000000000099999",
                "0-0000000005000",
                "",
            )
        ),
        ("blade[01-03]", "blade[01-", "r1.yaml:8: nodes: 'blade[01-' is not a range of names"),
        ("blade[01-03]", "Blade[01-03]", "nodes: 'Blade01' is not a name"),
        ("blade[01-03]", "blade", "'blade' does not end in a slot number; set slot"),
        ("blade[01-03]", "[{name: blade01}, {name: other1}]", "blade01 and other1 share the slot 1"),
        ("blade[01-03]", "[{name: blade01}, {name: blade02, slot: 1}]", "share the slot 1; make it unique"),
        ("blade[01-03]", "[{name: 'blade[01-02]', serial: abcd1234}]", "share the serial abcd1234"),
        ("blade[01-03]", "[]", "r1.yaml:8: nodes: is empty; give at least one node"),
        ("blade[01-03]", "[{nme: blade01}]", "nodes[0].nme: unknown key 'nme'; did you mean 'name'?"),
        ("blade[01-03]", "[{name: blade01, mac: X}]", "nodes[0].mac: is 'X'; give a lowercase MAC"),
        ("blade[01-03]", "[{name: blade01, machine: PC}]", "r1.yaml:8: nodes[0].machine: unknown onprem"),
        (
            "blade[01-03]",
            "[{name: blade01, address: -oProxyCommand=x}]",
            "r1.yaml:8: nodes[0].address: '-oProxyCommand=x' is not a well-formed address; give the node's address",
        ),
        (
            "blade[01-03]",
            "[{name: blade01, serial: '{{ 1 }}'}]",
            "nodes[0].serial: '{{ 1 }}' is not a well-formed",
        ),
        ("site: lab", "ste: lab", "unknown key 'ste'; did you mean 'site'?"),
        (
            "name: r1",
            "name: r2",
            "r1.yaml:2: name: the rack's name is 'r2', but the file is called r1.yaml; set 'r1'",
        ),
        ("plugin: gpufleet.fleet.rack", "plugin: rack", "plugin: is 'rack'"),
        ("10.9.0.0/24", "10.9.0.1/24", "network.cidr: is '10.9.0.1/24'; give a network"),
        ("10.9.0.0/24", "10.9.0.0/30", "slot 1 has no address in 10.9.0.0/30"),
    ],
)
def test_mistake_in_a_rack_is_reported_in_one_line(load_rack, old, new, message):
    with pytest.raises(InputError) as excinfo:
        load_rack(old, new)
    assert message in str(excinfo.value)
    assert "\n" not in str(excinfo.value)


def test_clustershell_groups_are_refused(load_rack):
    with pytest.raises(InputError, match="'@all' is not a name"):
        load_rack("blade[01-03]", "'@all'")


def test_stack_with_a_missing_rack_is_refused(spec, tmp_path):
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/r1.yaml").write_text(RACK)
    with pytest.raises(InputError, match=r"racks\[0\].name: inventory/r2.yaml not found; racks here: r1"):
        fleet.parse_fleet(spec | {"racks": [{"name": "r2"}]}, root=tmp_path)


def test_custom_gpu_servers_have_their_declared_cards(tmp_path):
    text = RACK.replace("kind: blades", "kind: servers").replace("blade[01-03]", "gpu[01-02]")
    text = text.replace("storage_gb: 500", "accelerators: [{model: H100 SXM 80GB, count: 8}]")
    file = tmp_path / "r1.yaml"
    file.write_text(text)
    cards = [
        [(a.model, a.count) for a in node.accelerators] for node in fleet.load_rack(file, tmp_path).nodes
    ]
    assert cards == [[("H100 SXM5 80GB", 8)]] * 2


def test_misspelt_rack_is_refused_with_a_suggestion(spec, project):
    with pytest.raises(InputError, match=r"inventory/blade-1.yaml not found; did you mean 'blades-1'"):
        fleet.parse_fleet(spec | {"racks": [{"name": "blade-1"}]}, root=project)


def test_stack_may_rename_a_rack(spec, tmp_path):
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/r1.yaml").write_text(RACK)
    racks = [{"name": "runners", "inventory": "r1", "template": "trainer"}]
    use = fleet.parse_fleet(spec | {"racks": racks}, root=tmp_path).racks[0]
    assert (use.name, use.template, use.rack.name, len(use.rack.nodes)) == ("runners", "trainer", "r1", 3)


def test_error_in_a_rack_names_the_rack_file(spec, tmp_path):
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory/r1.yaml").write_text(RACK.replace("kind: blades", "kind: shelf"))
    with pytest.raises(InputError, match=r"^inventory/r1.yaml:3: kind: is 'shelf'"):
        fleet.parse_fleet(spec | {"racks": [{"name": "r1"}]}, root=tmp_path)


def servers(tmp_path, machine, cards="accelerators: [{model: A100 SXM4 80GB, count: 8}]"):
    """Load a rack of GPU servers with this machine and these cards."""
    text = RACK.replace("kind: blades", "kind: servers").replace("blade[01-03]", "gpu[01-02]")
    text = text.replace("machine: Compute Blade CM4 8GB", f"machine: {machine}").replace(
        "storage_gb: 500", cards
    )
    file = tmp_path / "r1.yaml"
    file.write_text(text)
    return fleet.load_rack(file, tmp_path)


def test_every_machine_on_premises_is_in_the_docs(repo_root):
    names = {name for cloud, name in data_file.load_machines() if cloud == "onprem"}
    page = " ".join((repo_root / "docs/spec.md").read_text().split())
    assert not {name for name in names if f"`{name}`" not in page}


def test_custom_server_may_have_any_name(tmp_path):
    assert servers(tmp_path, "our 8x A100 box").nodes[0].machine == "our 8x A100 box"


@pytest.mark.parametrize(
    ("machine", "cards", "message"),
    [
        (
            "our box",
            "storage_gb: 500",
            "declare its accelerators, or hardware.vcpus and hardware.memory_gib, at the rack, or set machine on",
        ),
        (
            "8x H100 SXM5 server",
            None,
            "brings 8 x H100 SXM5 80GB already; accelerators would be added to them",
        ),
    ],
)
def test_cards_of_a_server_can_be_declared_only_once(tmp_path, machine, cards, message):
    with pytest.raises(InputError) as excinfo:
        servers(tmp_path, machine, *([cards] if cards else []))
    assert message in str(excinfo.value)
    assert "machine" in str(excinfo.value)


def test_rack_of_unlike_servers_names_the_machine_of_each(tmp_path):
    file = tmp_path / "r1.yaml"
    file.write_text(
        "plugin: gpufleet.fleet.rack\nname: r1\nkind: servers\nsite: lab\nnodes:\n"
        "  - {name: gpu01, machine: DGX H100}\n"
        "  - {name: gpu02, machine: tower, accelerators: [{model: RX 7900 XTX}]}\n"
    )
    rack = fleet.load_rack(file)
    assert [node.machine for node in rack.nodes] == ["DGX H100", "tower"]
    assert rack.machine_text == "DGX H100, tower"


def test_mistakes_of_several_fields_are_found_beside_a_wrong_key(load_rack):
    entries = "nodes:\n  - {name: b1, slot: 1}\n  - {name: b2, slot: 1}\nsitee: x"
    with pytest.raises(InputError) as caught:
        load_rack("nodes: blade[01-03]", entries)
    messages = " ".join(map(str, caught.value.errors))
    assert "sitee" in messages
    assert "b1 and b2 share the slot 1" in messages
