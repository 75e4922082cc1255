"""Test how often a folder of rack files is read; the reads are counted."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections import Counter

import pytest
from ansible import constants
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader

from gpufleet import nodes
from gpufleet.fleet import rack_file

RACKS = 30


@pytest.fixture
def many_racks(rack_project):
    """Give an inventory folder of 30 racks with two nodes each, some before and some after gpufleet.yaml by name."""
    folder = rack_project / "inventory"
    shutil.rmtree(folder / "group_vars")
    shipped = (folder / "blades-1.yaml").read_text()
    for number in range(RACKS - 3):
        name = f"{'a' if number % 2 else 'z'}-{number}"
        text = shipped.replace("name: blades-1", f"name: {name}").replace("blade[01-20]", f"{name}-[1-2]")
        (folder / f"{name}.yaml").write_text(text.replace("10.20.1.", f"10.21.{number}."))
    return folder


@pytest.fixture
def _collections_by_ansible():
    """Forget collections that a test imported as plain packages: Ansible finds plugins only in those it imports."""

    def forget():
        names = [name for name in sys.modules if name.partition(".")[0] == "ansible_collections"]
        return {name: sys.modules.pop(name) for name in names}

    plain = forget()
    yield
    forget()
    sys.modules.update(plain)


@pytest.fixture
def counts(monkeypatch, many_racks, _collections_by_ansible):
    """Count models built, files that we read and files that Ansible parses."""
    call_counts = Counter()

    def count(owner, name, what):
        real = getattr(owner, name)

        def counted(*arguments, **more):
            call_counts[what] += 1
            return real(*arguments, **more)

        monkeypatch.setattr(owner, name, counted)

    monkeypatch.setattr(constants, "INVENTORY_ENABLED", list(constants.INVENTORY_ENABLED))
    monkeypatch.chdir(many_racks.parent)
    monkeypatch.setenv("GPUFLEET_HOME", str(many_racks.parent / "home"))
    monkeypatch.delenv("GPUFLEET_REHEARSAL", raising=False)
    with warnings.catch_warnings():  # it says so where an earlier test has done it
        warnings.simplefilter("ignore")
        init_plugin_loader()
    count(nodes, "build_ansible_inventory", "models")
    count(rack_file, "read_text", "files")
    count(DataLoader, "load_from_file", "parses")
    return call_counts


def read(folder):
    return InventoryManager(loader=DataLoader(), sources=[str(folder)])


def test_folder_is_read_once(many_racks, counts):
    inventory = read(many_racks)
    assert counts["models"] == 1
    assert counts["files"] == RACKS + 1  # gpufleet.yaml is looked at, too
    assert counts["parses"] <= 3  # the first rack and gpufleet.yaml, which Ansible's own plugins find
    assert len(inventory.hosts) == 25 + 2 * (RACKS - 3)


def test_new_reader_sees_changes_and_an_earlier_one_does_not(many_racks, counts):
    first = read(many_racks)
    file = many_racks / "z-0.yaml"
    file.write_text(file.read_text().replace("z-0-[1-2]", "z-0-[1-3]"))
    second = read(many_racks)
    assert counts["models"] == 2
    assert ("z-0-3" in first.hosts, "z-0-3" in second.hosts) == (False, True)
    second.refresh_inventory()
    assert counts["models"] == 3
    assert "z-0-3" in second.hosts


def test_order_of_files_does_not_matter(many_racks, counts):
    inventory = read(many_racks)
    before, after = inventory.hosts["a-1-1"], inventory.hosts["z-0-1"]
    names = [{group.name for group in host.groups} - {"rack_a_1", "rack_z_0"} for host in (before, after)]
    assert names[0] == names[1]
    assert before.vars.keys() == after.vars.keys()


def test_rack_file_replaced_by_an_ordinary_inventory_is_left_to_ansible(many_racks, counts):
    read(many_racks)
    (many_racks / "z-0.yaml").write_text("all:\n  hosts:\n    server9:\n")
    inventory = read(many_racks)
    assert "server9" in inventory.hosts
    assert "z-0-1" not in inventory.hosts
