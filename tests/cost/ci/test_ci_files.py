"""Test CI files: no secrets for untrusted code, no untrusted text in scripts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def steps(document):
    """Return every step of an action or a workflow."""
    jobs = document.get("jobs") or {"": document.get("runs", {})}
    return [step for job in jobs.values() for step in job["steps"]]


PIPELINES = [
    ROOT / ".ci" / f"{name}.yml" for name in ("gitlab-cost", "azure-pipelines", "bitbucket-pipelines")
]
ACTION = ROOT / ".github/actions/cost/action.yml"
PINNED = re.compile(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$")
# Each commit as its repository's tag names it, read from `git for-each-ref` of the repositories themselves.
COMMITS = {
    "actions/checkout": ("d23441a48e516b6c34aea4fa41551a30e30af803", "v6.1.0"),
    "actions/setup-python": ("ece7cb06caefa5fff74198d8649806c4678c61a1", "v6.3.0"),
    "actions/upload-artifact": ("b7c566a772e6b6bfb58ed0dc250532a479d7789f", "v6.0.0"),
    "actions/download-artifact": ("37930b1c2abaa49bbe596cd826c3c89aef350131", "v7.0.0"),
}


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda p: p.name)
def test_shell_scripts_contain_no_workflow_expression(ci_tools, path):
    scripts = [step["run"] for step in steps(ci_tools["read"](path)) if "run" in step]
    assert scripts or path.name == "cost.yml"  # that one only calls the action
    assert not any("${{" in script for script in scripts)


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda p: p.name)
def test_every_action_is_pinned_to_the_commit_of_its_version(path):
    uses = [line.strip().removeprefix("- ") for line in path.read_text().splitlines() if "uses: " in line]
    assert uses
    for line in uses:
        if line == "uses: ./.github/actions/cost":
            continue  # of the same commit
        assert PINNED.fullmatch(line), line
        name, _, rest = line.removeprefix("uses: ").partition("@")
        assert tuple(rest.split("  # ")) == COMMITS[name]


PERMISSIONS = {
    "cost.yml": {"contents": "read"},
    "audit.yml": {"contents": "read"},
    "cost-comment.yml": {"actions": "read", "contents": "read", "pull-requests": "write"},
}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflow_declares_token_permissions_and_stores_no_credentials(ci_tools, path):
    document = ci_tools["read"](path)
    assert "pull_request_target" not in str(document["on"])
    assert document["permissions"] == {"contents": "read"}
    assert [job["permissions"] for job in document["jobs"].values()] == [PERMISSIONS[path.name]]
    checkouts = [step for step in steps(document) if "checkout" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.parametrize("path", [ROOT / ".github/workflows/cost.yml", ACTION], ids=lambda p: p.name)
def test_workflow_that_runs_pull_request_code_has_no_token_or_secret(path):
    text = path.read_text()
    assert "github.token" not in text
    assert "secrets." not in text
    assert ": write" not in text


def test_workflow_with_write_permission_checks_out_the_default_branch_and_trusts_no_artifact_number(ci_tools):
    document = ci_tools["read"](".github/workflows/cost-comment.yml")
    (checkout,) = (step for step in steps(document) if "checkout" in step.get("uses", ""))
    assert set(checkout["with"]) == {"persist-credentials"}  # no ref: the default branch
    assert set(document["on"]) == {"workflow_run"}
    (step,) = (step for step in steps(document) if "GITHUB_TOKEN" in step.get("env", {}))
    assert "--head-sha" in step["run"]
    assert "--pr " not in step["run"]


def test_gitlab_job_that_runs_merge_request_code_has_no_token(ci_tools):
    jobs = ci_tools["read"](".ci/gitlab-cost.yml")
    assert "environment" not in jobs["cost"]
    assert jobs["cost-comment"]["environment"] == {"name": "cost-comment", "action": "access"}
    assert jobs["cost-comment"]["script"][1] == "git checkout --quiet --force --detach FETCH_HEAD"


def test_azure_job_that_runs_pull_request_code_gets_no_token(ci_tools):
    document = ci_tools["read"](".ci/azure-pipelines.yml")
    cost, comment = document["jobs"]
    assert not any("env" in step for step in cost["steps"])
    assert "AccessToken" not in str(cost)
    assert [step["env"] for step in comment["steps"] if "bash" in step] == [
        {"SYSTEM_ACCESSTOKEN": "$(System.AccessToken)"}
    ]
    (script,) = (step["bash"] for step in comment["steps"] if "bash" in step)
    assert script.splitlines()[0] == 'git checkout --quiet --force --detach "origin/$COST_DEFAULT_BRANCH"'
    checkouts = [step for job in document["jobs"] for step in job["steps"] if "checkout" in step]
    assert [step["persistCredentials"] for step in checkouts] == [False, False]
    scripts = [step["bash"] for job in document["jobs"] for step in job["steps"] if "bash" in step]
    assert not any("$(" in script or "${{" in script for script in scripts)  # macros are put into the text


def test_bitbucket_step_that_runs_pull_request_code_has_no_token(ci_tools):
    document = ci_tools["read"](".ci/bitbucket-pipelines.yml")
    cost, comment = (entry["step"] for entry in document["pipelines"]["pull-requests"]["**"])
    assert "deployment" not in cost
    assert comment["deployment"] == "cost-comment"
    assert comment["script"][1] == "git checkout --quiet --force --detach FETCH_HEAD"
    assert "TOKEN" not in str(cost)


def test_dependency_audit_is_pinned_by_hash_and_covers_every_pinned_package():
    script, pins = (ROOT / ".ci/audit").read_text(), (ROOT / ".ci/audit.txt").read_text()
    assert "--require-hashes -r .ci/audit.txt" in script
    assert "--requirement .ci/constraints.txt" in script
    assert "cyclonedx-json" in script
    packages = [line for line in pins.splitlines() if line and not line.startswith((" ", "#"))]
    assert all(re.match(r"[\w.-]+==[\w.]+", line) for line in packages)
    assert pins.count("--hash=sha256:") >= len(packages)


def test_no_ci_file_names_cloud_credentials():
    for path in [*WORKFLOWS, ACTION, *PIPELINES, ROOT / ".ci/cost"]:
        text = path.read_text()
        assert not any(name in text for name in ("AWS_", "GOOGLE_", "ARM_", "AZURE_", "secrets."))
