"""Draining by Slurm, Kubernetes and own commands: programs on PATH that keep a state, as the real ones print it."""

from __future__ import annotations

import json

import pytest

from gpufleet.errors import InputError
from gpufleet.operations.watch.drain import DrainError, drain_node, resume_node
from gpufleet.operations.watch.policy import DrainHook, parse_watch_policy

SLURM, KUBERNETES = DrainHook(hook="slurm"), DrainHook(hook="kubernetes")
# `scontrol show node` of Slurm 22.05.8; `State` and `Reason` are kept in files. Updates exit 1 all the same.
SCONTROL = r"""#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> calls
case "$1" in
show) printf 'NodeName=gpu01 CoresPerSocket=1\n   NodeAddr=127.0.0.1 NodeHostName=gpu01\n'
      printf '   State=%s ThreadsPerCore=1 TmpDisk=0\n   OS=Linux\n' "$(cat state)"
      [ -s reason ] && printf '   Reason=%s [root@2026-11-29T00:00:00]\n' "$(cat reason)"; exit 0;;
update) [ -e broken ] && exit 1
      case "$3" in
      State=DRAIN) echo IDLE+DRAIN > state; echo "${4#Reason=}" > reason;;
      State=RESUME) echo IDLE > state; : > reason;; esac
      echo "slurm_update error: Invalid node name specified" >&2; exit 1;;
esac
"""
KUBECTL = r"""#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> calls
case "$1" in
get) cat node.json;;
annotate) [ "$4" = --overwrite ] && printf '%s' "${5#*=}" > note || : > note;;
cordon) echo true > cordoned;;
uncordon) echo false > cordoned;;
esac
printf '{"metadata":{"annotations":{"gpufleet/out-of-use":"%s"}},"spec":{"unschedulable":%s}}' \
    "$(cat note)" "$(cat cordoned)" > node.json
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("scontrol", SCONTROL), ("kubectl", KUBECTL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (folder / "state").write_text("IDLE\n")
    (folder / "reason").write_text("")
    (folder / "note").write_text("")
    (folder / "cordoned").write_text("false")
    (folder / "node.json").write_text(json.dumps({"metadata": {}, "spec": {}}))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.mark.parametrize("hook", [SLURM, KUBERNETES], ids=["slurm", "kubernetes"])
def test_node_is_drained_and_resumed(programs, hook):
    assert drain_node(hook, "gpu01", "xid_79 now").state == "drained"
    calls = (programs / "calls").read_text()
    assert "gpufleet: xid_79 now" in calls
    assert drain_node(hook, "gpu01", "again").state == "drained"
    assert "again" not in (programs / "calls").read_text()  # a new reason would replace the first
    assert resume_node(hook, "gpu01").state == "in_use"


def test_what_a_person_drained_stays_a_persons(programs):
    (programs / "state").write_text("IDLE+DRAIN\n")
    (programs / "reason").write_text("moving racks\n")
    assert drain_node(SLURM, "gpu01", "xid_79").state == "foreign"
    assert resume_node(SLURM, "gpu01").state == "foreign"
    assert "update" not in (programs / "calls").read_text()


def test_state_decides_and_not_the_exit_code(programs):
    (programs / "broken").touch()
    with pytest.raises(DrainError, match="gpu01 is still in use"):
        drain_node(SLURM, "gpu01", "xid_79")


@pytest.mark.parametrize("name", ["ALL", "all", "gpu[01-99]", "-x", "a b", "a,b", ""])
def test_names_that_mean_more_than_one_node_never_reach_a_scheduler(programs, name):
    with pytest.raises(DrainError, match="is not a name that a scheduler takes"):
        drain_node(SLURM, name, "x")
    assert not (programs / "calls").exists()


def test_own_commands(tmp_path):
    state = tmp_path / "state"
    state.write_text("in_use")
    hook = DrainHook(
        hook="command",
        drain=("sh", "-c", f'echo drained > {state}; echo "$1" > {state}.reason', "x", "{node} {reason}"),
        resume=("sh", "-c", f"echo in_use > {state}"), state=("cat", str(state)),
    )  # fmt: skip
    assert drain_node(hook, "gpu01", "$(reboot)").state == "drained"
    assert (tmp_path / "state.reason").read_text() == "gpu01 gpufleet: $(reboot)\n"
    resume_node(hook, "gpu01")
    state.write_text("perhaps")
    with pytest.raises(DrainError, match="printed 'perhaps', expected drained, in_use or foreign"):
        drain_node(hook, "gpu01", "x")


def test_watch_drains_and_resumes_what_is_usable_again(fleet, exporter, programs):
    smart = exporter("smartctl_device_smart_status 1\n")
    fleet.add("gpu01", smart=smart)
    fleet.policy = parse_watch_policy("drain: {hook: slurm}", "watch.yaml")
    fleet.cycle()
    (programs / "broken").touch()
    smart.say("smartctl_device_smart_status 0\n")
    assert "gpu01: slurm: gpu01 is still in use" in fleet.cycle().problems[0]
    (programs / "broken").unlink()
    fleet.start()  # a drain that failed is tried again, after a restart too
    assert fleet.cycle().scheduler == ["gpu01: drained in slurm (drained, IDLE+DRAIN)"]
    assert fleet.cycle().scheduler == []
    fleet.registry.release_node_hold("gpu01", "operator", "new drive")
    assert fleet.cycle().scheduler == ["gpu01: resumed in slurm (in_use)"]
    assert (programs / "state").read_text() == "IDLE\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "must be a mapping"),
        ("rulez: []", "unknown key"),
        ("drain: {hook: command}", "the hook command needs drain, resume and state"),
        ("drain: {hook: slurm, state: [x]}", "the hook command needs drain, resume and state"),
        (
            "rules: [{rule: gpu_xidd, action: off, reason: 'ten letters', by: me, date: 2026-11-20}]",
            "gpu_xidd",
        ),
        (
            "rules: [{rule: gpu_xid, action: 'off', reason: 'ten letters', by: me, date: 2999-11-20}]",
            "past date",
        ),
        ("at_most_percent: 0", "greater than 0"),
    ],
)
def test_wrong_site_file_is_one_line(text, problem):
    with pytest.raises(InputError, match=r"watch\.yaml") as caught:
        parse_watch_policy(text, "watch.yaml")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_site_turns_a_rule_off_and_changes_another():
    policy = parse_watch_policy(
        "rules:\n"
        "  - {rule: gpu_xid, action: 'off', reason: we look ourselves, by: me, date: 2026-11-20}\n"
        "  - {rule: nvme_gone, action: record, reason: we pull drives, by: me, date: 2026-11-20}\n",
        "watch.yaml",
    )
    assert policy.find_rule("gpu_xid") is None
    assert policy.find_rule("nvme_gone").action == "record"
