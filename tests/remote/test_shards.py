"""Test sharding: shards, the data sent to a worker, and a worker that lost its sender.

Whole runs on real workers are in tests/hosts/test_sharded.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.remote import RunRecord, find_newest_run_name, read_run_record, write_run_record
from gpufleet.remote.process_tree import SUPERVISOR
from gpufleet.remote.sharded_run import find_rack_or_pool
from gpufleet.remote.shards import (
    assign_shards_to_workers,
    build_worker_connections,
    bundle,
    group_hosts_into_shards,
    private_data,
)

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


def test_largest_shards_are_assigned_first_to_the_least_loaded_worker():
    hosts = [f"a{n}" for n in range(5)] + [f"b{n}" for n in range(3)] + [f"c{n}" for n in range(2)]
    argument = assign_shards_to_workers(
        group_hosts_into_shards(hosts, {host: host[0] for host in hosts}), ["w1", "w2", "w3", "w4"]
    )
    assert {worker: [shard.name for shard in shards] for worker, shards in argument.items()} == {
        "w1": ["a"],
        "w2": ["b"],
        "w3": ["c"],
    }
    two = assign_shards_to_workers(
        group_hosts_into_shards(hosts, {host: host[0] for host in hosts}), ["w1", "w2"]
    )
    assert [shard.name for shard in two["w2"]] == ["b", "c"]


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


@pytest.mark.parametrize(
    ("enabled", "sent"),
    [
        ("callbacks_enabled = gpufleet.fleet.registry\n", ""),
        ("callbacks_enabled=a.b.c,gpufleet.fleet.registry , d\n", "callbacks_enabled = a.b.c, d\n"),
        ("callbacks_enabled = a.b.c\n", "callbacks_enabled = a.b.c\n"),
    ],
)
def test_workers_get_every_callback_but_the_registrys(enabled, sent):
    config = "[defaults]\n{}nocows = True\n"
    assert private_data.remove_registry_callback(config.format(enabled)) == config.format(sent)


def test_run_without_any_key_is_refused(monkeypatch):
    monkeypatch.delenv("ANSIBLE_PRIVATE_KEY_FILE", raising=False)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(InputError, match="workers have no SSH key for the hosts"):
        private_data.read_ansible_private_key()
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    assert private_data.read_ansible_private_key() is None


def test_vault_passwords_are_not_sent(monkeypatch):
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", "/etc/pass")
    with pytest.raises(InputError, match="vault passwords are not sent"):
        private_data.build_worker_environment("/there")


def test_workers_are_reached_with_ansibles_connection_settings(monkeypatch):
    monkeypatch.setenv("ANSIBLE_PRIVATE_KEY_FILE", "/keys/mine")
    monkeypatch.setenv("ANSIBLE_SSH_COMMON_ARGS", "-o 'UserKnownHostsFile=\"/a b/known\"'")
    blade, other = build_worker_connections(
        ["blade01", " ops@gate "], {"blade01": {"ansible_host": "10.0.0.7", "ansible_user": "root"}}
    )
    assert blade.command[-1] == "root@10.0.0.7"
    assert 'UserKnownHostsFile="/a b/known"' in blade.command
    assert "StrictHostKeyChecking=yes" in blade.command
    assert blade.command[blade.command.index("-i") + 1] == "/keys/mine"
    assert other.command[-1] == "ops@gate"


@pytest.mark.parametrize("argument", [[""], [" ", ""], ["-oProxyCommand=evil"]])
def test_invalid_worker_is_refused(argument):
    with pytest.raises(InputError, match="--workers"):
        build_worker_connections(argument, {})


@pytest.fixture(scope="module")
def bundle_archive(tmp_path_factory):
    return bundle.build_worker_bundle(tmp_path_factory.mktemp("bundle"))


def test_bundle_runs_without_other_packages(bundle_archive, tmp_path):
    """No package of this environment is on the path: what is missing from the bundle would be missed."""
    with tarfile.open(bundle_archive.archive) as archive:
        archive.extractall(tmp_path, filter="data")
    plugins = "ansible_collections.gpufleet.fleet.plugins.module_utils"
    code = f"import ansible_runner, gpufleet.drivers, gpufleet.burnin, {plugins}"
    env = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "PYTHONPATH": f"{tmp_path}/site",
        "HOME": str(tmp_path),
    }
    base = Path(sys.base_prefix) / "bin" / f"python{bundle_archive.python}"
    python = str(base) if base.is_file() else sys.executable
    subprocess.run([python, "-S", "-c", code], env=env, check=True)
    listing = subprocess.run(
        ["ansible-playbook", "--version"], env=env | {"GPUFLEET_WORKER_PYTHON": python}, capture_output=True,
        text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert f"{tmp_path}/site/ansible" in listing.stdout


def test_bundle_is_built_once_and_again_after_a_change(tmp_path, monkeypatch):
    package_folder = tmp_path / "modules" / "gpufleet"
    package_folder.mkdir(parents=True)
    (package_folder / "errors.py").write_text("")
    monkeypatch.setattr(bundle, "ROOTS", ("packaging",))
    monkeypatch.setattr(bundle, "PACKAGE_FOLDER", package_folder)
    first = bundle.build_worker_bundle(tmp_path / "kept")
    before = first.archive.stat().st_mtime_ns
    assert bundle.build_worker_bundle(tmp_path / "kept") == first
    assert first.archive.stat().st_mtime_ns == before
    (package_folder / "errors.py").write_text("# changed\n")
    assert bundle.build_worker_bundle(tmp_path / "kept").name != first.name


def start_worker(folder, bin_folder):
    """Start the worker's side with a fake ansible_runner: it reads, then sleeps and leaves a child behind."""
    package = bin_folder / "site" / "ansible_runner"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import subprocess, sys, time\n"
        "line = sys.stdin.readline()\n"
        "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print('began', line.strip(), flush=True)\n"
        "time.sleep(0 if line.startswith('quick') else 600)\n"
    )
    supervised = bin_folder / "site/gpufleet/burnin/agent"
    supervised.mkdir(parents=True)
    shutil.copy(SUPERVISOR, supervised)
    script = bin_folder / "worker.py"
    script.write_text(Path(private_data.__file__).with_name("worker.py").read_text())
    return subprocess.Popen(
        [sys.executable, str(script), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def find_marked_processes(folder):
    """Return the processes that carry the run's mark."""
    mark = f"GPUFLEET_WORKER={folder}".encode()
    leftovers = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in entry.read_bytes().split(b"\0"):
                leftovers.append(entry.parent.name)
        except OSError:
            continue
    return leftovers


@pytest.mark.skipif(sys.platform != "linux", reason="workers are Linux hosts")
@pytest.mark.parametrize("position", ["quick", "slow", "killed"])
def test_no_process_or_file_remains_after_a_run_on_a_worker(tmp_path, position):
    """Neither when it ends, nor when the sender is gone: not even a child in a session of its own."""
    folder = tmp_path / "run"
    process = start_worker(folder, tmp_path / "bundle")
    process.stdin.write(f"{position}\n")
    process.stdin.flush()
    assert process.stdout.readline() == f"began {position}\n"
    if position == "slow":
        assert find_marked_processes(folder)
        process.stdin.close()
    if position == "killed":
        process.kill()
    process.wait(60)
    deadline = time.monotonic() + 60
    while (find_marked_processes(folder) or folder.exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert find_marked_processes(folder) == []
    assert not folder.exists()
    process.stdout.close()


def test_run_record_lists_remaining_hosts(tmp_path):
    record = RunRecord("site", "new_blades", "auto", False, ("secret",), ("b1", "b2", "b3"))
    write_run_record(tmp_path / "run1", record.with_done_hosts(["b2"]))
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
