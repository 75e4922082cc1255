"""Test programs of other projects with the real engine: previewed, logged, deployed and priced."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gpufleet import cost, engine

pytestmark = pytest.mark.engine
PROGRAMS = Path(__file__).resolve().parents[1] / "cases" / "programs"
CLOUDS = [
    "autoscaling-web", "eks-gpu", "gke-gpu-pool", "aks-agent-pool", "vmss-workers", "spot-fleet",
    "two-networks", "private-machines", "small-site", "labelled-vm",
]  # fmt: skip
SETTINGS = "--non-interactive -s dev"
LOGGED = "PULUMI_DEBUG_COMMANDS=true pulumi"  # it shows the flag --event-log


@pytest.fixture(scope="module")
def preview_program(rehearse_stack, tmp_path_factory):
    """Preview a program with the real engine; returns its JSON, its event log and the shell in its folder."""
    done = {}

    def preview(name):
        if name not in done:
            shell = rehearse_stack("poc")
            folder = tmp_path_factory.mktemp("other") / name
            shutil.copytree(PROGRAMS / name, folder)
            shell.run(f"cd '{folder}' && pulumi stack init {SETTINGS}")
            requests = f"{LOGGED} preview {SETTINGS} --json --show-sames --event-log events.jsonl"
            output = shell.run(f"cd '{folder}' && {requests} 2>err.txt || (cat err.txt >&2; exit 1)")
            done[name] = (json.loads(output.stdout), (folder / "events.jsonl").read_text(), shell, folder)
        return done[name]

    yield preview
    for _, _, shell, folder in done.values():
        shell.run(
            f"cd '{folder}' && pulumi destroy {SETTINGS} --yes --skip-preview && pulumi stack rm {SETTINGS} --yes"
        )


def billed_components(bill):
    return {(charge.urn, charge.component) for charge in bill.charges} | {
        (gap.urn, gap.component) for gap in bill.unpriced_resources
    }


@pytest.mark.parametrize("name", CLOUDS)
def test_preview_event_log_and_evaluation_without_engine_cost_the_same(preview_program, name):
    document, log, *_ = preview_program(name)
    preview_diff = cost.diff_from_preview(document)
    logged = cost.diff_from_event_log(engine.parse_last_phase_of_log(log, "events.jsonl"))
    plain = cost.estimate_stack(PROGRAMS / name, "dev").bill
    assert preview_diff.after.usd_per_month == logged.after.usd_per_month == plain.usd_per_month
    assert (
        billed_components(preview_diff.after) == billed_components(logged.after) == billed_components(plain)
    )
    assert preview_diff.before.charges == ()
    assert not preview_diff.partial
    assert not logged.partial


@pytest.mark.parametrize("name", ["spot-fleet", "gke-gpu-pool", "vmss-workers", "eks-gpu", "autoscaling-web"])
def test_deployed_cost_equals_previewed_cost(preview_program, name):
    document, _, shell, folder = preview_program(name)
    shell.run(f"cd '{folder}' && {LOGGED} up {SETTINGS} --yes --skip-preview --event-log up.jsonl")
    state = json.loads(shell.run(f"cd '{folder}' && pulumi stack export {SETTINGS}").stdout)
    previewed_month = cost.diff_from_preview(document).after.usd_per_month
    assert cost.estimate_exported_state(state).bill.usd_per_month == previewed_month
    carried_out = cost.diff_from_event_log(
        engine.parse_last_phase_of_log((folder / "up.jsonl").read_text(), "up.jsonl")
    )
    assert carried_out.after.usd_per_month == previewed_month
    unchanged = cost.diff_stack_against_state(state, folder, "dev")
    assert unchanged.change_usd_per_month == 0
    assert unchanged.unknown_changes == ()
    assert unchanged.policy.passed


def test_automation_api_events_match_the_preview(preview_program):
    from pulumi.automation.events import EngineEvent

    document, log, *_ = preview_program("spot-fleet")
    events = [EngineEvent.from_json(json.loads(line)) for line in log.splitlines()]
    steps = cost.diff_from_automation(events)
    assert steps.after.usd_per_month == cost.diff_from_preview(document).after.usd_per_month
    assert steps.stack == "dev"
