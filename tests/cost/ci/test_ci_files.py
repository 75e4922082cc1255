"""What the CI files promise: no secrets to strangers' code, no text of strangers in scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def steps(document):
    """Return every step of an action or a workflow."""
    jobs = document.get("jobs") or {"": document.get("runs", {})}
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / ".github/actions/cost/action.yml"], ids=lambda p: p.name)
def test_no_expression_stands_inside_a_script(tools, path):
    scripts = [step["run"] for step in steps(tools["read"](path)) if "run" in step]
    assert scripts or path.name == "cost.yml"  # that one only calls the action
    assert not any("${{" in script for script in scripts)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_a_workflow_says_what_its_token_may_do_and_keeps_none_in_the_checkout(tools, path):
    document = tools["read"](path)
    assert "pull_request_target" not in str(document["on"])
    assert set(document["permissions"]) <= {"actions", "contents", "pull-requests"}
    assert document["permissions"]["contents"] == "read"
    checkouts = [step for step in steps(document) if "checkout" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_the_workflow_that_writes_checks_out_nothing_of_the_fork(tools):
    document = tools["read"](".github/workflows/cost-fork.yml")
    (checkout,) = (step for step in steps(document) if "checkout" in step.get("uses", ""))
    assert set(checkout["with"]) == {"persist-credentials"}  # no ref: the default branch
    assert "workflow_run" in document["on"]


def test_no_ci_file_names_cloud_credentials():
    files = [
        *WORKFLOWS,
        ROOT / ".github/actions/cost/action.yml",
        ROOT / ".ci/gitlab-cost.yml",
        ROOT / ".ci/cost",
    ]
    for path in files:
        text = path.read_text()
        assert not any(name in text for name in ("AWS_", "GOOGLE_", "ARM_", "AZURE_", "secrets."))
