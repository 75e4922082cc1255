"""Test retiring a node: refusals, confirmations, kept evidence. The real play is tested in tests/roles."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from gpufleet.errors import CheckFailed, EnvironmentFault, InputError
from gpufleet.nodes import NodeIdentity, NodeObservation
from gpufleet.operations import node_view, retire

DRIVE = {
    "path": "/dev/nvme0n1", "by_id": "/dev/disk/by-id/nvme-X", "model": "X", "serial": "D1", "size": 500107862016,
    "method": "format-crypto", "strength": "purge", "commands": [["nvme", "format", "/dev/nvme0n1"]],
    "unmount": [], "release": [],
}  # fmt: skip
LEFT = {"path": "/dev/sda", "serial": "U", "size": 8 * 10**9, "reason": "it can be pulled out", "ours": False}
PLAN = {"id": "abc123", "complete": True, "drives": [DRIVE], "refused": [LEFT]}
WIPED = {"path": "/dev/nvme0n1", "serial": "D1", "wiped": True, "fake": False}
PROOF = {"plan": "abc123", "complete": True, "refused": [LEFT], "evidence": [WIPED]}


class RetireScenario:
    """A registry with one blade, a fake play with scripted reports, and a record of runs and output."""

    def __init__(self, registry, serial="S123", state="ready"):
        self.registry, self.runs, self.said, self.typed = registry, [], [], ""
        self.states = []  # the node's state in each run
        self.answers = [("wipe_planned", {"plan": PLAN, "jobs": []}), ("wiped", PROOF)]
        identity = NodeIdentity(serial=serial, rack="r1", slot="1")
        registry.apply_observation(
            NodeObservation(
                "rack:r1", "blade01", identity, declared={"kind": "compute_blade", "address": "10.9.0.11"}
            )
        )
        for step in ("discovered", "commissioning", "burn_in", "ready", "assigned", "draining"):
            if registry.get_node("blade01").state == state:
                break
            registry.move_node("blade01", step, "test")

    def run(self, node, variables):
        self.runs.append(variables)
        self.states.append(self.state)
        event, facts = self.answers.pop(0)
        reports = ({"event": event, "facts": facts},) if event else ()
        host = SimpleNamespace(reason="the connection broke")
        return SimpleNamespace(reports=reports, hosts=(host,), errors=(), artifacts="here")

    def retire(self, **options):
        interaction = retire.RetireInteraction(self.run, lambda _question: self.typed, self.said.append)
        request = retire.RetireRequest(**{"node": "blade01", "reason": "broken fan", "wipe": True, **options})
        return retire.retire_node(self.registry, request, interaction)

    @property
    def state(self):
        return self.registry.get_node("blade01").state

    def events(self):
        return [line.event for line in self.registry.list_node_history("blade01")]


@pytest.fixture
def make_scenario(registry, tmp_path, monkeypatch):
    """Return a function that makes a scenario from keyword arguments."""
    monkeypatch.setenv("GPUFLEET_HOME", str(tmp_path))
    (tmp_path / "ssh").mkdir()
    (tmp_path / "ssh/known_hosts").write_text("10.9.0.11 ssh-ed25519 K\nother ssh-ed25519 K\n")
    return lambda **more: RetireScenario(registry, **more)


def test_confirmed_serial_wipes_the_drives_and_writes_a_certificate(make_scenario, tmp_path):
    one = make_scenario()
    result = one.retire(confirm="S123")
    assert [run.get("wipe_confirm") for run in one.runs] == [None, "S123"]
    assert one.runs[1]["wipe_plan_id"] == "abc123"
    node = one.registry.get_node("blade01")
    assert (node.state, node.address) == ("retired", None)
    document = json.loads(result.certificate.read_text())
    assert (document["node"]["serial"], document["complete"], document["reason"]) == (
        "S123",
        True,
        "broken fan",
    )
    assert document["drives"] == [WIPED]
    assert (tmp_path / "ssh/known_hosts").read_text() == "other ssh-ed25519 K\n"
    assert [e for e in one.events() if e.startswith("wipe")] == ["wipe_begun", "wiped"]
    assert one.states == ["ready", "draining"], "no job may be placed on a node that is being wiped"


def test_plan_is_printed_before_the_confirmation(make_scenario):
    one = make_scenario()
    one.retire(confirm="S123")
    assert one.said[0] == "blade01, r1/1, serial S123: plan abc123"
    assert "serial D1  500 GB" in one.said[1]
    assert one.said[3] == "  leave  /dev/sda  8 GB: it can be pulled out"


@pytest.mark.parametrize("typed", ["", "s123", "S1234", "blade01"])
def test_wrong_serial_exits_with_2_and_wipes_nothing(make_scenario, typed):
    one = make_scenario()
    one.typed = typed
    with pytest.raises(InputError, match="is not the node's serial: nothing was changed") as excinfo:
        one.retire()
    assert excinfo.value.exit_code == 2
    assert len(one.runs) == 1
    assert one.state == "ready"
    assert "wipe_begun" not in one.events()


def test_running_job_prevents_a_wipe_unless_forced(make_scenario):
    one = make_scenario(state="assigned")
    with pytest.raises(
        InputError, match="the node is assigned, so a job may be running on it; drain it first"
    ):
        one.retire(confirm="S123")
    assert one.runs == []
    one.retire(confirm="S123", force=True)
    assert one.state == "retired"


def test_running_container_prevents_a_wipe_unless_forced(make_scenario):
    one = make_scenario()
    one.answers[0] = ("wipe_planned", {"plan": PLAN, "jobs": ["container llm (podman)"]})
    with pytest.raises(CheckFailed, match=r"runs jobs: container llm \(podman\); nothing was changed"):
        one.retire(confirm="S123")
    assert one.state == "ready"


def test_node_without_wipeable_drives_is_refused(make_scenario):
    one = make_scenario()
    one.answers[0] = ("wipe_planned", {"plan": {**PLAN, "drives": []}, "jobs": []})
    with pytest.raises(CheckFailed, match="no drive of blade01 can be wiped"):
        one.retire(confirm="S123")


def test_interrupted_wipe_is_reported_as_unknown_and_repeated(make_scenario):
    one = make_scenario()
    one.answers[1] = (None, None)
    with pytest.raises(CheckFailed, match=r"the connection broke; what is left on its drives is unknown"):
        one.retire(confirm="S123")
    assert one.state == "draining"
    one.answers = [("wipe_planned", {"plan": PLAN, "jobs": []}), ("wiped", PROOF)]
    one.retire(confirm="S123")
    assert any("began at" in line and "may not have finished" in line for line in one.said)
    assert one.state == "retired"


def test_failed_drive_keeps_the_node_and_its_evidence(make_scenario):
    one = make_scenario()
    bad = {**WIPED, "wiped": False, "reason": "4 of 16 places still read as before"}
    one.answers[1] = ("wiped", {**PROOF, "complete": False, "evidence": [bad]})
    with pytest.raises(CheckFailed, match="is not wiped: /dev/nvme0n1: 4 of 16 places still read as before"):
        one.retire(confirm="S123")
    assert one.state == "draining"
    assert one.events()[-1] == "wipe_failed"


def test_missing_wipe_plan_is_an_environment_fault(make_scenario):
    one = make_scenario()
    one.answers = [(None, None)]
    with pytest.raises(EnvironmentFault, match="did not report wipe_planned: the connection broke"):
        one.retire(confirm="S123")


@pytest.mark.parametrize("state", ["expected", "commissioning", "ready", "draining"])
def test_idle_node_can_be_retired_without_a_wipe(make_scenario, state):
    one = make_scenario(state=state)
    result = one.retire(wipe=False, yes=True)
    assert (one.state, one.runs, result.certificate) == ("retired", [], None)
    assert "another board there" in result.lines[-1]


def test_retired_node_cannot_be_retired_again(make_scenario):
    one = make_scenario()
    one.retire(wipe=False, yes=True)
    with pytest.raises(InputError, match="retired since"):
        one.retire(wipe=False, yes=True)


def test_node_without_a_serial_cannot_be_confirmed(make_scenario):
    with pytest.raises(InputError, match="its serial, which confirms a wipe, is unknown"):
        make_scenario(serial=None).retire(confirm="")


def test_rented_machine_must_be_removed_from_its_pool(registry, make_scenario):
    identity = NodeIdentity(instance_id="i-0abc")
    values = {"kind": "cloud_vm", "cloud": "aws", "pool": "train"}
    registry.apply_observation(NodeObservation("pulumi:production", "train-1", identity, declared=values))
    one = make_scenario()
    with pytest.raises(CheckFailed, match="rented from aws: the pool's count must go down") as excinfo:
        one.retire(node="train-1", wipe=False, yes=True)
    assert "pulumi up" in excinfo.value.hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reason": "  "}, "--reason: is empty; give a reason"),
        ({"method": "magic"}, "--method: unknown wipe method 'magic'; methods: auto, ata-enhanced-erase"),
        (
            {"wipe": False, "confirm": "WRONG"},
            "--confirm: this option needs --wipe; add --wipe, or remove --confirm",
        ),
        ({"wipe": False, "method": "discard"}, "--method: this option needs --wipe; add --wipe"),
    ],
)
def test_contradictory_options_are_refused_before_contacting_a_host(make_scenario, options, message):
    one = make_scenario()
    with pytest.raises(InputError, match=message):
        one.retire(**options)
    assert (one.state, one.runs) == ("ready", [])


def test_retired_workstation_that_is_still_declared_is_reported(registry, tmp_path, monkeypatch):
    monkeypatch.setenv("GPUFLEET_HOME", str(tmp_path))
    registry.apply_observation(
        NodeObservation("workstation:poc", "m2", declared={"kind": "workstation", "stack": "poc"})
    )
    result = retire.retire_node(
        registry, retire.RetireRequest("m2", "sold", yes=True), retire.RetireInteraction(None, None, print)
    )
    assert result.lines[-1].startswith("stacks/Pulumi.poc.yaml still declares it: remove it")


def test_history_of_a_retired_node_is_found_by_its_reused_name(make_scenario):
    one = make_scenario()
    retired_node = one.retire(confirm="S123").node
    assert node_view.list_former_namesake_notes(one.registry, "blade01") == []
    identity = NodeIdentity(rack="r1", slot="1")
    one.registry.apply_observation(
        NodeObservation("rack:r1", "blade01", identity, declared={"kind": "compute_blade"})
    )
    (line,) = node_view.list_former_namesake_notes(one.registry, "blade01")
    assert line.startswith(f"another node had the name blade01: {retired_node.id}, retired since ")
    assert line.endswith(f"gpufleet nodes history {retired_node.id}")


@pytest.mark.parametrize("fakes", [[True], [False], [False, True], [False, False], [None]])
def test_certificate_states_whether_a_drive_was_fake(make_scenario, registry, tmp_path, fakes):
    evidence = [
        {
            "path": f"/dev/nvme{at}n1",
            "serial": f"D{at}",
            "wiped": True,
            **({} if fake is None else {"fake": fake}),
        }
        for at, fake in enumerate(fakes)
    ]
    make_scenario()
    node, request = registry.get_node("blade01"), retire.RetireRequest("blade01", "broken fan", wipe=True)
    path = retire.write_wipe_certificate(tmp_path, node, request, {**PROOF, "evidence": evidence})
    document = json.loads(path.read_text())
    assert document["fake"] is any(fakes)
    assert document["drives"] == evidence
    assert document["left_alone"] == [LEFT]


def test_certificate_of_an_incomplete_wipe_is_not_complete(make_scenario, registry, tmp_path):
    make_scenario()
    node, request = registry.get_node("blade01"), retire.RetireRequest("blade01", "broken fan", wipe=True)
    for complete in (True, False):
        path = retire.write_wipe_certificate(tmp_path, node, request, {**PROOF, "complete": complete})
        assert json.loads(path.read_text())["complete"] is complete


def test_node_is_retired_only_after_its_name_is_typed(make_scenario):
    one = make_scenario()
    for typed in ("", "y", "blade02"):
        one.typed = typed
        with pytest.raises(InputError, match="is not the node's name: nothing was changed"):
            one.retire(wipe=False)
    assert (one.state, one.runs) == ("ready", [])
    one.typed = "blade01"
    one.retire(wipe=False)
    assert one.state == "retired"


def test_yes_option_does_not_confirm_a_wipe(make_scenario):
    one = make_scenario()
    with pytest.raises(InputError, match="--yes: --yes does not confirm --wipe"):
        one.retire(yes=True)
    assert (one.state, one.runs) == ("ready", [])


def test_retire_without_a_terminal_needs_yes(project, gpufleet):
    assert gpufleet("nodes", "sync", "-s", "poc", cwd=project).returncode == 0
    refused = gpufleet("nodes", "retire", "poc-blade01", "--reason", "sold", cwd=project)
    assert refused.returncode == 2
    assert "add --yes" in refused.stderr
    state = json.loads(gpufleet("nodes", "list", "poc-blade01", "--json", cwd=project).stdout)[0]["state"]
    assert state != "retired"
    result = gpufleet("nodes", "retire", "poc-blade01", "--reason", "sold", "--yes", cwd=project)
    assert result.returncode == 0, result.stderr
