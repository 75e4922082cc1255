"""Test sharding: shards, which node takes them, the data sent to a node, the record of a run.

Runs on a real mesh are in test_mesh.py, with booted hosts in tests/hosts/test_sharded.py.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.remote import RunRecord, find_newest_run_name, read_run_record, write_run_record
from gpufleet.remote.sharded_run import find_rack_or_pool
from gpufleet.remote.shards import (
    ShardQueue,
    group_hosts_into_shards,
    private_data,
    read_trusted_host_keys,
)

COLLECTION = "collections/ansible_collections/me/things"
RACKS = {f"r{rack}-{slot}": f"rack-{rack}" for rack in (1, 2) for slot in range(1, 4)}


def names(shards):
    return {shard.name: shard.hosts for shard in shards}


def test_each_rack_is_a_shard():
    assert names(group_hosts_into_shards([*reversed(RACKS), "lone"], RACKS)) == {
        "elsewhere": ("lone",),
        "rack-1": ("r1-1", "r1-2", "r1-3"),
        "rack-2": ("r2-1", "r2-2", "r2-3"),
    }


@pytest.mark.parametrize(
    ("at_most", "sizes"), [(0, [7]), (7, [7]), (6, [4, 3]), (3, [3, 3, 1]), (1, [1] * 7)]
)
def test_large_racks_are_split_evenly_without_losing_hosts(at_most, sizes):
    hosts = [f"h{number}" for number in range(7)]
    parts = group_hosts_into_shards(hosts, dict.fromkeys(hosts, "rack"), at_most)
    assert [len(part.hosts) for part in parts] == sizes
    assert [host for part in parts for host in part.hosts] == hosts
    assert len({part.folder_name for part in parts}) == len(parts)


def take_all(queue, nodes):
    """Let free nodes take shards in turn until none is left; return their names by node."""
    shards_by_node = {node: [] for node in nodes}
    while any(shards := [(node, queue.take_shard(node)) for node in nodes]) and any(s for _, s in shards):
        for node, shard in shards:
            shards_by_node[node] += [shard.name] if shard else []
    return shards_by_node


def test_largest_shards_are_taken_first_by_free_nodes():
    hosts = [f"a{n}" for n in range(5)] + [f"b{n}" for n in range(3)] + [f"c{n}" for n in range(2)]
    parts = group_hosts_into_shards(hosts, {host: host[0] for host in hosts})
    assert take_all(ShardQueue(parts, ["n1", "n2"]), ["n1", "n2"]) == {"n1": ["a", "c"], "n2": ["b"]}


def test_shards_of_a_rack_wait_for_the_node_of_that_name():
    parts = group_hosts_into_shards([*RACKS, "lone"], RACKS, 2)
    queue = ShardQueue(parts, ["rack-1", "gate"])
    assert take_all(queue, ["rack-1"]) == {
        "rack-1": ["rack-1.1", "rack-2.1", "elsewhere", "rack-1.2", "rack-2.2"]
    }
    queue = ShardQueue(parts, ["rack-1", "gate"])
    assert take_all(queue, ["gate"]) == {"gate": ["rack-2.1", "elsewhere", "rack-2.2"]}
    assert [shard.name for shard in queue.list_waiting_shards()] == ["rack-1.1", "rack-1.2"]


def test_host_without_a_rack_belongs_to_the_shard_of_its_pool():
    assert find_rack_or_pool({"gpufleet_rack": "r", "gpufleet_pool": "p"}, "rack") == "r"
    assert find_rack_or_pool({"gpufleet_rack": "r", "gpufleet_pool": "p"}, "pool") == "p"
    assert find_rack_or_pool({"gpufleet_pool": "p"}, "rack") == "p"
    assert find_rack_or_pool({}, "rack") is None


EXPORTED = {
    "_meta": {"hostvars": {"b1": {"ansible_host": "198.18.1.11"}}},
    "all": {"children": ["ungrouped", "rack_one", "site"]},
    "rack_one": {"hosts": ["b1"], "vars": {"from": "group_vars, which go along as files"}},
    "site": {"children": ["rack_one", "gone"]},
    "spare": {"hosts": ["b2"]},
}


def test_exported_inventory_needs_no_plugin(tmp_path):
    static = private_data.build_static_inventory(EXPORTED)
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps(static))
    completed = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(file), "--list"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    seen = json.loads(completed.stdout)
    assert seen["_meta"]["hostvars"] == {"b1": {"ansible_host": "198.18.1.11"}}
    assert seen["site"]["children"] == ["rack_one"]
    assert static["all"]["hosts"] == {"b1": {"ansible_host": "198.18.1.11"}, "b2": {}}, "b2 has no variables"
    assert "vars" not in static["all"]["children"]["rack_one"]


@pytest.fixture
def root(tmp_path):
    """Give a project with as much as is sent."""
    (tmp_path / "root/playbooks/roles").mkdir(parents=True)
    (tmp_path / "root/inventory/group_vars").mkdir(parents=True)
    (tmp_path / "root/playbooks/site.yml").write_text("[]\n")
    config = "[defaults]\nforks = 20\ncallbacks_enabled = gpufleet.fleet.registry\nnocows = True\n"
    (tmp_path / "root/playbooks/ansible.cfg").write_text(config)
    (tmp_path / "root/inventory/group_vars/all.yaml").write_text("ansible_user: root\n")
    (tmp_path / "root/inventory/secret-notes.txt").write_text("not asked for\n")
    return tmp_path / "root"


def test_sent_folder_contains_only_what_the_run_needs(root, tmp_path, monkeypatch):
    monkeypatch.setenv("ANSIBLE_PRIVATE_KEY_FILE", str(tmp_path / "key"))
    (tmp_path / "key").write_text("PRIVATE")
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA me")
    folder = tmp_path / "sent"
    folder.mkdir()
    private_data.write_runner_private_data(folder, root, EXPORTED, "host ssh-ed25519 BBBB\n", {"wait": 1})
    sent = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert sent == {
        "project/site.yml", "project/ansible.cfg", "inventory/hosts.json", "inventory/group_vars/all.yaml",
        "ssh/known_hosts", "ssh/key.pub", "extra.json",
    }  # fmt: skip
    assert (folder / "project/ansible.cfg").read_text() == "[defaults]\nforks = 20\nnocows = True\n"
    assert not any("PRIVATE" in path.read_text() for path in folder.rglob("*") if path.is_file())
    assert private_data.read_ansible_private_key() == "PRIVATE"


@pytest.fixture
def galaxy(root):
    """Give the project a role and a collection of other people, as ansible-galaxy installs them."""
    for name in ("roles/motd/tasks", "roles/motd/.git", f"{COLLECTION}/roles/x/tasks"):
        (root / "galaxy" / name).mkdir(parents=True)
        (root / "galaxy" / name / "main.yml").write_text("[]\n")
    (root / "galaxy/roles/alias").symlink_to("motd")
    return root / "galaxy"


def test_roles_of_others_are_sent_where_ansible_looks_for_them(root, galaxy, tmp_path):
    folder = tmp_path / "sent"
    folder.mkdir()
    private_data.write_runner_private_data(folder, root, EXPORTED, "", {})
    sent = {str(path.relative_to(folder / "galaxy")) for path in (folder / "galaxy").rglob("main.yml")}
    assert sent == {"roles/motd/tasks/main.yml", f"{COLLECTION}/roles/x/tasks/main.yml"}
    assert (folder / "galaxy/roles/alias").readlink() == Path("motd")
    private_data.refuse_links_out_of_galaxy(root)


def test_project_without_playbooks_is_sent_with_its_settings_and_roles_next_to_each_other(
    root, galaxy, tmp_path
):
    (root / "playbooks/ansible.cfg").rename(root / "ansible.cfg")
    (root / "roles/mine/tasks").mkdir(parents=True)
    (root / "roles/mine/tasks/main.yml").write_text("[]\n")
    shutil.rmtree(root / "playbooks")
    folder = tmp_path / "sent"
    folder.mkdir()
    private_data.write_runner_private_data(folder, root, EXPORTED, "", {})
    sent = {str(path.relative_to(folder)) for path in (folder / "project").rglob("*") if path.is_file()}
    assert sent == {"project/ansible.cfg", "project/roles/mine/tasks/main.yml"} | {
        f"project/galaxy/{name}/main.yml" for name in ("roles/motd/tasks", f"{COLLECTION}/roles/x/tasks")
    }
    assert not (folder / "galaxy").exists()


@pytest.mark.parametrize("target", ["/etc", "../../../elsewhere", "../../playbooks"])
def test_link_out_of_the_roles_of_others_is_refused(root, galaxy, tmp_path, target):
    (galaxy / "roles/mine").symlink_to(target)
    with pytest.raises(InputError, match=r"galaxy/roles/mine: a link out of galaxy/"):
        private_data.refuse_links_out_of_galaxy(root)
    folder = tmp_path / "sent"
    folder.mkdir()
    private_data.write_runner_private_data(folder, root, EXPORTED, "", {})
    assert (folder / "galaxy/roles/mine").is_symlink(), "never followed"


def test_project_without_roles_of_others_has_no_links_to_refuse(root):
    private_data.refuse_links_out_of_galaxy(root)


@pytest.mark.parametrize(
    ("enabled", "sent"),
    [
        ("callbacks_enabled = gpufleet.fleet.registry\n", ""),
        ("callbacks_enabled=a.b.c,gpufleet.fleet.registry , d\n", "callbacks_enabled = a.b.c, d\n"),
        ("callbacks_enabled = a.b.c\n", "callbacks_enabled = a.b.c\n"),
    ],
)
def test_nodes_get_every_callback_but_the_registrys(enabled, sent):
    config = "[defaults]\n{}nocows = True\n"
    assert private_data.remove_registry_callback(config.format(enabled)) == config.format(sent)


def test_nodes_use_their_own_key_unless_one_is_configured(tmp_path, monkeypatch):
    monkeypatch.delenv("ANSIBLE_PRIVATE_KEY_FILE", raising=False)
    assert private_data.read_ansible_private_key() is None
    assert "ANSIBLE_PRIVATE_KEY_FILE" not in private_data.build_node_environment("/there")
    monkeypatch.setenv("ANSIBLE_PRIVATE_KEY_FILE", str(tmp_path / "missing"))
    with pytest.raises(InputError, match="cannot read"):
        private_data.read_ansible_private_key()


def test_vault_passwords_are_not_sent(monkeypatch):
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", "/etc/pass")
    with pytest.raises(InputError, match="vault passwords are not sent"):
        private_data.build_node_environment("/there")


def test_environment_on_a_node_stays_in_the_runs_folder(monkeypatch):
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", "postgresql://me:secret@db/fleet")
    environment = private_data.build_node_environment("/there")
    assert environment["PATH"].startswith("/there/bin:")
    assert environment["ANSIBLE_CONFIG"] == "/there/project/ansible.cfg"
    written = ("TMPDIR", "GPUFLEET_HOME", "ANSIBLE_LOCAL_TEMP", "ANSIBLE_SSH_CONTROL_PATH_DIR")
    assert all(environment[name].startswith("/there") for name in written)
    assert "secret" not in json.dumps(environment)


def test_trusted_host_keys_are_those_of_ansibles_connection_settings(tmp_path, monkeypatch):
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "known").write_text("10.0.0.7 ssh-ed25519 AAAA\n")
    (tmp_path / "own").write_text("10.0.0.8 ssh-ed25519 BBBB\n")
    monkeypatch.setenv(
        "ANSIBLE_SSH_COMMON_ARGS", f"-o UserKnownHostsFile={tmp_path}/own -o GlobalKnownHostsFile=/dev/null"
    )
    assert read_trusted_host_keys("blade01", {}) == "10.0.0.8 ssh-ed25519 BBBB\n"
    settings = {
        "ansible_ssh_common_args": f"-o 'UserKnownHostsFile=\"{tmp_path}/own\"' -o GlobalKnownHostsFile=/dev/null"
    }
    assert read_trusted_host_keys("blade01", settings) == "10.0.0.8 ssh-ed25519 BBBB\n"


def test_known_hosts_of_user_and_machine_are_joined_line_by_line(tmp_path):
    # The last line of a file may have no end, and a comment may be in any encoding.
    (tmp_path / "user").write_bytes(b"10.0.0.8 ssh-ed25519 BBBB \xe4")
    (tmp_path / "machine").write_text("@revoked * ssh-ed25519 CCCC")
    options = f"-F none -o UserKnownHostsFile={tmp_path}/user -o GlobalKnownHostsFile={tmp_path}/machine"
    lines = read_trusted_host_keys("blade01", {"ansible_ssh_common_args": options}).splitlines()
    assert sorted(line.split()[0] for line in lines) == ["10.0.0.8", "@revoked"]


def run_node_playbook(folder, program_name, versions):
    """Start the sent program below a process with that name, as ansible-runner does."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/versions.json").write_text(json.dumps(versions))
    shutil.copy(Path(private_data.__file__).with_name("node_playbook.py"), folder / "bin/ansible-playbook")
    parent = folder / program_name
    parent.write_text("import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)\n")
    return subprocess.run(
        [sys.executable, str(parent), str(folder / "bin/ansible-playbook"), "--version"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_node_with_another_version_is_refused(tmp_path):
    result = run_node_playbook(tmp_path / "a", "ansible-runner", {"ansible-core": "1.0"})
    installed = metadata.version("ansible-core")
    line = f"this node has ansible-core {installed}, the controller 1.0: install the same"
    assert (result.returncode, result.stdout.strip()) == (4, f"mesh node not usable: {line}")
    result = run_node_playbook(tmp_path / "b", "other", {})
    assert (result.returncode, result.stdout.strip()) == (
        4,
        "mesh node not usable: ansible-runner did not start this program",
    )


def test_run_record_lists_remaining_hosts(tmp_path):
    record = RunRecord("site", "new_blades", "auto", False, ("secret",), ("b1", "b2", "b3"), tags=("sshd",))
    write_run_record(tmp_path / "run1", record.with_done_hosts(["b2"]))
    assert read_run_record(tmp_path / "run1").tags == ("sshd",)
    assert read_run_record(tmp_path / "run1").remaining_hosts == ("b1", "b3")
    assert find_newest_run_name(tmp_path) == "run1"
    assert read_run_record(tmp_path / "run1").with_done_hosts(["b1", "b3"]).remaining_hosts == ()


def test_missing_or_damaged_record_is_reported_in_one_line(tmp_path):
    with pytest.raises(InputError, match="no run to resume"):
        find_newest_run_name(tmp_path)
    with pytest.raises(InputError, match="run 'r9' not found"):
        read_run_record(tmp_path / "r9")
    (tmp_path / "r9").mkdir()
    (tmp_path / "r9/run.json").write_text('{"play": "site"')
    with pytest.raises(InputError, match="is damaged"):
        read_run_record(tmp_path / "r9")
