"""Test site.yml without a host: the order of plays and the hosts of each."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest
from ruamel.yaml import YAML

from gpufleet.fleet import NodeFabric

ROOT = Path(__file__).resolve().parents[2] / "modules/ansible_collections/gpufleet/fleet/playbooks"
IB_TOOLS = ROOT.parent / "roles/ib_tools"
ORDER = [
    "commission",
    "roles_before",
    "configure",
    "kernel_arguments",
    "drivers",
    "containers",
    "fabrics",
    "nfs",
    "application",
    "roles_after",
    "spot_notice",
    "monitoring",
    "burn_in",
]
BLADE = {"gpufleet_kind": "compute_blade", "gpufleet_is_new": True, "gpufleet_template": "ci-runner"}
READY = {"gpufleet_is_new": False, "gpufleet_is_busy": False}
BUSY = {"gpufleet_is_new": False, "gpufleet_is_busy": True}
CONTAINERS = {"container_files": [{"name": "a.container", "content": "[Container]\nImage=nginx:1\n"}]}
PROBED = {"commission_probe": {"applications": []}}
LEFT_OVER = {"commission_probe": {"applications": ["gpufleet-a"]}}
# Host variables -> the groups of the plays that run on it.
HOSTS = {
    "blade": (BLADE | PROBED, ["burn_in_now"]),
    "ready-blade": (BLADE | PROBED | READY, []),
    "busy": (BLADE | PROBED | BUSY | {"gpufleet_burn_in": "always"}, []),
    "left-over": (BLADE | LEFT_OVER | READY, ["application_here"]),
    "app": (BLADE | PROBED | {"gpufleet_application": CONTAINERS}, ["application_here", "burn_in_now"]),
    "tuned": (
        BLADE | PROBED | READY | {"gpufleet_kernel_arguments": {"present": ["iommu=pt"]}},
        ["kernel_arguments_here"],
    ),
    "pages": (BLADE | PROBED | READY | {"kernel_arguments_gigantic_pages": 4}, ["kernel_arguments_here"]),
    "tuned-before": (
        BLADE | READY | {"commission_probe": {"applications": [], "has_kernel_arguments": True}},
        ["kernel_arguments_here"],
    ),
    "governed": (
        BLADE | PROBED | READY | {"gpufleet_cpu_governor": "performance"},
        ["kernel_arguments_here"],
    ),
    "watched": (BLADE | PROBED | READY | {"gpufleet_exporters": ["auto"]}, ["monitoring_here"]),
    "shared": (BLADE | PROBED | READY | {"gpufleet_nfs": {"mounts": []}}, ["nfs_here"]),
    "spot": (
        {"gpufleet_kind": "cloud_vm", "gpufleet_is_spot": True} | READY | PROBED,
        ["drivers_planned", "spot_notice_here"],
    ),
    "server": ({"gpufleet_kind": "gpu_server"} | PROBED, ["burn_in_now", "drivers_planned"]),
    "podman": (
        BLADE | PROBED | {"gpufleet_software": {"container_engine": "podman"}},
        ["burn_in_now", "containers_here"],
    ),
    "other-roles": (
        BLADE | PROBED | READY | {"gpufleet_roles_before": ["a.b"], "gpufleet_roles_after": ["c", "d.e.f"]},
        ["roles_after_here", "roles_before_here"],
    ),
    "empty-hooks": (BLADE | PROBED | READY | {"gpufleet_roles_before": [], "gpufleet_roles_after": None}, []),
    "no-engine": (BLADE | PROBED | {"gpufleet_software": {"container_engine": "none"}}, ["burn_in_now"]),
    "cloud": (
        {"gpufleet_kind": "cloud_vm", "gpufleet_fabric": "efa"} | READY | PROBED,
        ["drivers_planned", "fabric_efa"],
    ),
}
PLAYED = {
    "drivers_planned",
    "containers_here",
    "fabric_infiniband",
    "fabric_efa",
    "application_here",
    "monitoring_here",
    "kernel_arguments_here",
    "nfs_here",
    "spot_notice_here",
    "burn_in_now",
    "roles_before_here",
    "roles_after_here",
}


def load(path):
    return YAML(typ="safe").load(path)


def test_site_playbook_imports_plays_in_order():
    books = [
        play["ansible.builtin.import_playbook"] for play in load(ROOT / "site.yml") if "hosts" not in play
    ]
    assert books == [f"{name}.yml" for name in ORDER]


def test_volumes_are_mounted_before_the_application_starts():
    """A service also requires the mounts (``RequiresMountsFor`` in tests/collection/role_values/application.json)."""
    roles = re.findall(r"name: gpufleet\.fleet\.(\w+)\n", (ROOT / "configure.yml").read_text())
    assert "storage" in roles
    assert ORDER.index("configure") < ORDER.index("containers") < ORDER.index("application")


def test_only_identity_base_and_grouping_plays_run_on_all_hosts(clean_env):
    command = ["ansible-playbook", "-i", "a,b", "--list-hosts", "--list-tasks", "site.yml"]
    result = subprocess.run(command, cwd=ROOT, env=clean_env, capture_output=True, text=True, check=True)
    plays = re.findall(
        r"play #\d+ \((.+?)\): (.+?)\tTAGS.*?\n    pattern: .*\n    hosts \((\d+)\)", result.stdout
    )
    everywhere = [name for _, name, hosts in plays if hosts != "0"]
    assert everywhere == ["Power on", "Commission", "Select further steps for each host", "Configure"]
    later = {name for pattern, _, _ in plays for name in re.split(r"[:!]+", pattern)}
    assert later >= PLAYED


@pytest.mark.parametrize("kind", get_args(NodeFabric.model_fields["kind"].annotation))
def test_every_fabric_that_a_rack_may_declare_is_configured(clean_env, kind):
    play = load(ROOT / "fabrics.yml")[1]
    assert f"fabric_{kind}" in play["hosts"].split(":")
    expression = load(IB_TOOLS / "defaults/main.yml")["ib_tools_wanted"]
    command = [
        "ansible",
        "-i",
        "a,",
        "a",
        "-c",
        "local",
        "-m",
        "debug",
        "-a",
        f"msg={expression}",
        "-e",
        f"gpufleet_fabric={kind}",
    ]
    result = subprocess.run(command, cwd=ROOT, env=clean_env, capture_output=True, text=True, check=True)
    assert '"msg": true' in result.stdout


@pytest.mark.parametrize(
    "name",
    [
        "drivers",
        "containers",
        "fabrics",
        "nfs",
        "application",
        "monitoring",
        "burn_in",
        "roles_before",
        "roles_after",
    ],
)
def test_each_play_runs_on_every_host(clean_env, name):
    command = ["ansible-playbook", "-i", "a,b", "--list-hosts", f"{name}.yml"]
    result = subprocess.run(command, cwd=ROOT, env=clean_env, capture_output=True, text=True, check=True)
    assert re.search(r"play #1 \(all\).*?hosts \(2\)", result.stdout, re.DOTALL)


def test_hosts_of_later_plays_are_selected(clean_env, tmp_path):
    grouping = next(play for play in load(ROOT / "site.yml") if "hosts" in play)
    hosts_by_play = {
        "ansible.builtin.debug": {"msg": "GROUPS {{ inventory_hostname }} {{ group_names | join(' ') }}"}
    }
    show = {
        "name": "Show",
        "hosts": "all",
        "gather_facts": False,
        "tasks": [{"name": "Show", **hosts_by_play}],
    }
    (tmp_path / "play.yml").write_text(json.dumps([grouping, show]))
    hosts = {name: variables for name, (variables, _) in HOSTS.items()}
    (tmp_path / "hosts.yaml").write_text(json.dumps({"all": {"hosts": hosts}}))
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text((ROOT / "group_vars/all.yml").read_text())
    result = subprocess.run(
        ["ansible-playbook", "-i", "hosts.yaml", "play.yml"],
        cwd=tmp_path, env=clean_env | {"ANSIBLE_INJECT_FACT_VARS": "False"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    printed_groups = re.findall(r"GROUPS (\S+) ([\w ]*)", result.stdout)
    assert {name: sorted(PLAYED & set(groups.split())) for name, groups in printed_groups} == {
        name: groups for name, (_, groups) in HOSTS.items()
    }


@pytest.mark.parametrize(
    "name", ["configure", "containers", "fabrics", "nfs", "application", "roles_before", "roles_after"]
)
def test_failure_is_recorded_in_the_registry_and_the_run_continues(name):
    block = next(task for play in load(ROOT / f"{name}.yml") for task in play["tasks"] if "rescue" in task)
    (report_task,) = block["rescue"]
    assert report_task["ansible.builtin.import_tasks"] == "tasks/part_failed.yml"
    done = [task["gpufleet.fleet.report"] for task in block["block"] if "gpufleet.fleet.report" in task]
    assert [task.get("part", "base") for task in done] == [report_task["vars"]["gpufleet_part"]]


def test_failed_drivers_prevent_the_restart_and_the_run_continues():
    site = {
        play.get("ansible.builtin.import_playbook"): play.get("vars", {}) for play in load(ROOT / "site.yml")
    }
    assert site["drivers.yml"]["gpufleet_continue_without_drivers"] is True
    books = [play for play in load(ROOT / "drivers.yml") if "ansible.builtin.import_playbook" in play]
    assert [book["vars"]["gpufleet_restart_hosts"] for book in books] == [
        "drivers_nvidia:drivers_amd:kernel_arguments_here"
    ]
    assert "drivers_failed" in load(ROOT / "group_vars/all.yml")["gpufleet_restart_allowed"]
