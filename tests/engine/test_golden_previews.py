"""Test golden programs with the real engine: preview, log and evaluation have the manual cost."""

from __future__ import annotations

import importlib.util
import json
import sys
from datetime import date
from pathlib import Path

import pytest

from gpufleet import cost, engine
from gpufleet.cost.inputs.stack_change import change_from_events, change_from_preview, resources_from_state
from gpufleet.cost.pricing.commitments.model import CommitmentFile
from gpufleet.rehearsal.providers import schema
from gpufleet.rehearsal.providers.validation import find_input_problems

pytestmark = pytest.mark.engine
spec = importlib.util.spec_from_file_location(
    "golden", Path(__file__).resolve().parents[1] / "cost" / "golden" / "golden.py"
)
golden = sys.modules.setdefault("golden", importlib.util.module_from_spec(spec))
if not hasattr(golden, "load_cases"):
    spec.loader.exec_module(golden)

SETTINGS = "--non-interactive -s dev"
CLOUDS = {cloud: schema.load_cloud_schema(cloud) for cloud in ("aws", "gcp", "azure-native")}


def is_accepted(resource):
    """Return whether the simulated clouds accept a resource; a few programs exist only for their prices."""
    cloud = CLOUDS.get(resource["type"].split(":")[0])
    if cloud is None or resource["type"] not in cloud.types:
        return False
    return not list(find_input_problems(cloud, cloud.types[resource["type"]], resource["inputs"]))


CASES = {
    case.slug: case
    for case in golden.load_cases()
    if all(is_accepted(resource) for side in (case.old, case.new) for resource in side.program.values())
}
DAY = date(2026, 11, 21)


@pytest.fixture(scope="module")
def engine_reports(rehearse_stack, tmp_path_factory):
    """Build the old side of every case with the real engine and preview the new one: JSON, log, state, program."""
    shell = rehearse_stack("poc")
    folder = golden.write_program(
        tmp_path_factory.mktemp("golden") / "", list(CASES.values()), {"dev": "old"}
    )
    places = "  aws:region: us-east-1\n  gcp:project: golden\n  azure-native:location: eastus\n"
    settings = folder / "Pulumi.dev.yaml"
    settings.write_text(settings.read_text() + places)
    change_folder = f"cd '{folder}' &&"
    shell.run(f"{change_folder} pulumi stack init {SETTINGS} && pulumi up {SETTINGS} --yes --skip-preview")
    state = json.loads(shell.run(f"{change_folder} pulumi stack export {SETTINGS}").stdout)
    settings.write_text(settings.read_text().replace("golden:side: old", "golden:side: new"))
    both = "--json --show-sames --event-log events.jsonl 2>err.txt"
    result = shell.run(f"{change_folder} PULUMI_DEBUG_COMMANDS=true pulumi preview {SETTINGS} {both}")
    document = json.loads(result.stdout)
    log = engine.parse_last_phase_of_log((folder / "events.jsonl").read_text(), "events.jsonl")
    yield (
        change_from_preview(document),
        change_from_events(log),
        state,
        cost.evaluate_program(folder, "dev"),
    )
    shell.run(
        f"{change_folder} pulumi destroy {SETTINGS} --yes --skip-preview && pulumi stack rm {SETTINGS} --yes"
    )


def assert_cost_matches(resources, case, side):
    recorded = CommitmentFile.model_validate({"commitments": case.commitments}).commitments
    providers = [resource for resource in resources if resource.is_provider_resource]
    case_resources = golden.select_case_resources(resources, case)
    bill = cost.price_resources(
        [*providers, *case_resources], golden.book(), commitments=recorded, on_date=DAY
    )
    rows = {f"{charge.name} {charge.component}": charge.usd_per_month.expected for charge in bill.charges}
    assert rows == side.rows
    assert bill.usd_per_month.expected == side.total
    assert (bill.usd_per_month.low, bill.usd_per_month.high) == (side.low, side.high)


def test_cases_cover_most_resource_families():
    assert len(CASES) >= 30
    assert {"EC2 instance", "EC2 fleet", "GCP instance", "GKE", "Azure VM", "AKS"} <= {
        case.family for case in CASES.values()
    }


@pytest.mark.parametrize("slug", CASES)
def test_costs_with_and_without_an_engine_match_the_manual_calculation(slug, engine_reports):
    case = CASES[slug]
    preview, log, state, evaluated = engine_reports
    for change in (preview, log):
        assert_cost_matches(change.before, case, case.old)
        assert_cost_matches(change.after, case, case.new)
        assert not change.partial
    assert_cost_matches(resources_from_state(state), case, case.old)
    assert_cost_matches(evaluated, case, case.new)


def test_recorded_previews_cover_every_operation(engine_reports):
    assert {"create", "update", "replace", "same"} <= set(engine_reports[0].ops.values())
