"""Test the evaluation of this project's program at two commits without an engine."""

from __future__ import annotations

import functools
import subprocess
from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.program.evaluation import start_program_evaluation
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.errors import EnvironmentFault, InputError


def git(root, *arguments):
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    completed = subprocess.run(
        ["git", "-C", str(root), *author, *arguments], check=True, capture_output=True, text=True
    )
    return completed.stdout


def rewrite(path, old, new):
    text = path.read_text()
    assert old in text
    path.unlink()  # the package's files are shared with other projects
    path.write_text(text.replace(old, new))


@pytest.fixture
def poc(project):
    """Return the stack file of ``poc``, whose program needs no provider SDK, with a rack that costs something."""
    rewrite(project / "stacks/Pulumi.poc.yaml", "name: blades-poc ", "name: blades-1 ")
    git(project, "commit", "-qam", "a rack with a price")
    return project / "stacks/Pulumi.poc.yaml"


def test_second_machine_in_production_has_the_manually_calculated_cost(project):
    changed_stack = project / "stacks/Pulumi.production.yaml"
    text = changed_stack.read_text()
    changed_stack.write_text(
        text.replace("count: 1", "count: 2", 1)
    )  # the first pool: p4d.24xlarge, reserved
    cost_diff = cost.diff_stack_against_git_ref(project, "production", "HEAD")
    reserved = Decimal("21.957642") * 730
    line = next(
        line
        for line in cost_diff.lines
        if line.shown_charge.type.endswith(":CapacityReservation") and line.is_changed
    )
    assert line.before.usd_per_month.expected == reserved
    assert line.after.usd_per_month.expected == 2 * reserved
    covered_lines = [
        line
        for line in cost_diff.lines
        if line.shown_charge.purchase == "covered" and "p4d" in line.shown_charge.item
    ]
    assert len(covered_lines) == 2
    assert cost_diff.budget_usd_per_month == 60000


@pytest.fixture(scope="module")
def estimate_shipped(shared_project):
    """Return a function that estimates a shipped stack, once for all tests."""
    return functools.cache(lambda stack: cost.estimate_stack(shared_project, stack))


def test_production_has_the_manually_calculated_cost(estimate_shipped):
    bill = estimate_shipped("production").bill
    machines = {
        charge.item: charge.usd_per_month.expected
        for charge in bill.charges
        if charge.usd_per_hour.expected > 1
    }
    assert machines == {
        "p4d.24xlarge": Decimal("21.957642") * 730,
        "a2-megagpu-16g": Decimal("29.25568") * 730,
        "Standard_ND96amsr_A100_v4": Decimal("20.97283") * 730,
    }


def test_dev_stays_within_its_budget_and_has_an_attached_card(estimate_shipped):
    estimate = estimate_shipped("dev")
    assert estimate.is_within_budget
    cards = next(charge for charge in estimate.bill.charges if charge.component == "accelerators")
    assert cards.usd_per_month.expected == Decimal("0.35") * 160


@pytest.mark.parametrize(
    ("stack", "usd_per_month"),  # summed by hand, part for part, in tests/fleet/test_stacks.py
    [("production", 53156.77), ("dev", 327.58), ("poc", 65.39)],
)
def test_shipped_stacks_have_the_manually_calculated_cost_and_nothing_unpriced(
    estimate_shipped, stack, usd_per_month
):
    bill = estimate_shipped(stack).bill
    assert float(bill.usd_per_month.expected) == pytest.approx(usd_per_month, abs=0.01)
    assert [gap.reason for gap in bill.unpriced_resources if "bills by use" not in gap.reason] == []


def test_unchanged_project_has_no_difference(project, poc):
    cost_diff = cost.diff_stack_against_git_ref(project, "poc", "HEAD")
    assert cost_diff.change_usd_per_month == 0
    assert {line.shown_charge.name: line.op for line in cost_diff.lines} == {"blades-1": "same", "m2": "same"}


def test_git_index_and_untracked_files_are_not_changed(project, poc):
    rewrite(poc, "name: blades-1 ", "name: blades-poc ")
    git(project, "add", "-A")
    (project / "stray.txt").write_text("stray")
    before = git(project, "status", "--porcelain=v2"), (project / ".git/index").read_bytes()
    assert cost.diff_stack_against_git_ref(project, "poc", "HEAD").change_usd_per_month < 0
    assert (git(project, "status", "--porcelain=v2"), (project / ".git/index").read_bytes()) == before


def test_stack_that_is_missing_at_the_base_starts_at_zero(project, poc):
    git(project, "mv", "stacks/Pulumi.poc.yaml", "stacks/Pulumi.lab.yaml")
    cost_diff = cost.diff_stack_against_git_ref(project, "lab", "HEAD")
    assert not cost_diff.before.charges
    assert cost_diff.after.charges


def test_renamed_rack_is_removed_and_added(project, poc):
    git(project, "mv", "inventory/blades-1.yaml", "inventory/shelf.yaml")
    rewrite(project / "inventory/shelf.yaml", "name: blades-1", "name: shelf")
    rewrite(poc, "name: blades-1 ", "name: shelf ")
    cost_diff = cost.diff_stack_against_git_ref(project, "poc", "HEAD")
    assert sorted((line.op, line.shown_charge.name) for line in cost_diff.lines if line.is_changed) == [
        ("create", "shelf"),
        ("delete", "blades-1"),
    ]
    assert cost_diff.change_usd_per_month == 0


def test_each_version_runs_its_own_package(project, poc):
    rewrite(
        project / "modules/gpufleet/cloud/__init__.py",
        "from __future__ import annotations",
        "raise OSError('no')",
    )
    with pytest.raises(InputError, match=r"modules/gpufleet/cloud/__init__.py:\d+: .*OSError: no") as excinfo:
        cost.diff_stack_against_git_ref(project, "poc", "HEAD")
    assert "at HEAD" not in str(excinfo.value)
    git(project, "commit", "-qam", "broken")
    git(project, "checkout", "-q", "HEAD~1", "--", ".")
    with pytest.raises(InputError, match=r"at HEAD: modules/gpufleet/cloud/__init__\.py"):
        cost.diff_stack_against_git_ref(project, "poc", "HEAD")


def test_mistake_in_the_spec_names_its_line_and_the_version(project, poc):
    rewrite(poc, "    racks:", "    rakcs:")
    with pytest.raises(InputError, match=r"^stacks/Pulumi.poc.yaml:\d+: gpufleet:fleet.rakcs"):
        cost.diff_stack_against_git_ref(project, "poc", "HEAD")
    git(project, "commit", "-qam", "misspelt")
    rewrite(poc, "    rakcs:", "    racks:")
    with pytest.raises(InputError, match=r"^at HEAD: stacks/Pulumi.poc.yaml:\d+: gpufleet:fleet.rakcs"):
        cost.diff_stack_against_git_ref(project, "poc", "HEAD")


def test_another_file_can_replace_the_stack_file(project, poc, tmp_path):
    changed_stack = tmp_path / "whatif.yaml"
    changed_stack.write_text(poc.read_text().replace("name: blades-1 ", "name: blades-poc "))
    cost_diff = cost.diff_stack_against_git_ref(project, "poc", "HEAD", config_file=changed_stack)
    assert cost_diff.change_usd_per_month < 0


@pytest.mark.parametrize("ref", ["nosuch", "HEAD~99", "--help", "HEAD:stacks"])
def test_unknown_ref_is_refused_in_one_line(project, ref):
    with pytest.raises(InputError, match="--base: no commit named"):
        cost.diff_stack_against_git_ref(project, "poc", ref)


def test_folder_outside_a_repository_is_refused(project, tmp_path):
    (project / ".git").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="not in a git repository"):
        cost.diff_stack_against_git_ref(project, "poc", "HEAD")


def test_project_in_a_subfolder_of_its_repository_is_evaluated(project, poc, tmp_path):
    repository = tmp_path / "whole"
    repository.mkdir()
    git(repository, "init", "-q")
    (project / ".git").rename(tmp_path / "old-git")
    project.rename(repository / "fleet")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "in a folder")
    rewrite(repository / "fleet/stacks/Pulumi.poc.yaml", "name: blades-1 ", "name: blades-poc ")
    cost_diff = cost.diff_stack_against_git_ref(repository / "fleet", "poc", "HEAD")
    assert cost_diff.change_usd_per_month < 0


def test_endless_program_is_stopped(project):
    (project / "stacks/__main__.py").write_text("import time\ntime.sleep(600)\n")
    with (
        start_program_evaluation([StackProgram(project, "poc")], limit_s=4) as run,
        pytest.raises(EnvironmentFault, match="within 4 s"),
    ):
        run()


def test_program_that_ends_by_itself_is_wrong_input(project):
    (project / "stacks/__main__.py").write_text("import os\nprint('last words', flush=True)\nos._exit(0)\n")
    with pytest.raises(InputError, match="ended early: last words"):
        cost.evaluate_program(project, "poc")


def test_encrypted_settings_are_not_decrypted(project):
    stack = project / "stacks/Pulumi.poc.yaml"
    stack.write_text(stack.read_text() + "  gpufleet:token: {secure: AAABcipher}\n")
    (project / "stacks/__main__.py").write_text(
        "import pulumi\n"
        "token = pulumi.Config('gpufleet').require_secret('token')\n"
        "pulumi.ComponentResource('gpufleet:onprem:Rack', 'r', {'usd_per_hour': token})\n"
    )
    bill = cost.price_resources(cost.evaluate_program(project, "poc"))
    assert [gap.reason for gap in bill.unpriced_resources] == ["hourly cost is a secret"]


def test_urns_match_those_of_the_engine(project):
    urns = {resource.urn for resource in cost.evaluate_program(project, "poc")}
    assert "urn:pulumi:poc::gpufleet::gpufleet:onprem:Rack::blades-poc" in urns


def test_stack_is_evaluated_at_a_git_ref(project, poc):
    poc.unlink()
    assert cost.evaluate_program(project, "poc", "HEAD")
    with pytest.raises(InputError, match="stack 'poc' not found"):
        cost.evaluate_program(project, "poc")


def test_date_in_the_settings_reaches_the_program_as_text():
    from datetime import date

    from gpufleet.cost.inputs.program.child import format_setting

    assert format_setting({"as_of": date(2026, 11, 21)}) == '{"as_of": "2026-11-21"}'
