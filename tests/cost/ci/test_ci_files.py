"""Test CI files: no secrets for untrusted code, no untrusted text in scripts."""

from __future__ import annotations

import re
import subprocess
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
    "actions/attest-build-provenance": ("a2bbfa25375fe432b6a289bc6b6cd05ecd0c4c32", "v4.1.0"),
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
    "cost.yml": [{"contents": "read"}],
    "audit.yml": [{"contents": "read"}],
    "cost-comment.yml": [{"actions": "read", "contents": "read", "pull-requests": "write"}],
    "test.yml": [{"contents": "read"}],
    # What builds has no write permission; what publishes runs nothing of the repository.
    "release.yml": [
        {"contents": "read"},
        {"contents": "write", "id-token": "write", "attestations": "write"},
    ],
    "prices.yml": [
        {"contents": "read"},
        {"contents": "write", "id-token": "write", "attestations": "write"},
    ],
}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_workflow_declares_token_permissions_and_stores_no_credentials(ci_tools, path):
    document = ci_tools["read"](path)
    assert "pull_request_target" not in str(document["on"])
    assert document["permissions"] == {"contents": "read"}
    assert [job["permissions"] for job in document["jobs"].values()] == PERMISSIONS[path.name]
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
    assert [step["clean"] for step in checkouts] == [True, True]  # an agent of one's own keeps the folder
    scripts = [step["bash"] for job in document["jobs"] for step in job["steps"] if "bash" in step]
    assert not any("$(" in script or "${{" in script for script in scripts)  # macros are put into the text


def test_bitbucket_step_that_runs_pull_request_code_has_no_token(ci_tools):
    document = ci_tools["read"](".ci/bitbucket-pipelines.yml")
    cost, comment = (entry["step"] for entry in document["pipelines"]["pull-requests"]["**"])
    assert "deployment" not in cost
    assert comment["deployment"] == "cost-comment"
    assert comment["script"][1] == "git checkout --quiet --force --detach FETCH_HEAD"
    assert "TOKEN" not in str(cost)


def test_no_step_changes_the_environment_of_later_steps():
    for path in [*WORKFLOWS, ACTION]:
        assert not re.search(r">+ *\"?\$\{?GITHUB_(?:PATH|ENV)", path.read_text()), path.name


def test_linters_find_nothing_in_our_workflows():
    result = subprocess.run([ROOT / ".ci/workflows"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ((), ""),
        ((", persist-credentials: false", ""), "artipacked"),
        (('"on": [pull_request]', '"on": [pull_request_target]'), "dangerous-triggers"),
        (("runs-on: ubuntu-24.04", "runs-on: [ubuntu-24.04"), "failed to parse"),
        (
            ("stack: production, policy", "stack: '${{ matrix.stack }}', policy"),
            'property "stack" is not defined',
        ),
    ],
)
def test_linters_find_nothing_in_the_workflow_of_the_documentation(tmp_path, change, finding):
    page = (ROOT / "docs/cost-in-ci.md").read_text()
    (workflow,) = re.findall(r"```yaml\n(name: cost\n.*?)```", page, re.DOTALL)
    workflow = workflow.replace("cost@COMMIT", f"cost@{'0' * 40}").replace(*change or ("", ""))
    (tmp_path / ".github/workflows").mkdir(parents=True)
    (tmp_path / ".github/workflows/cost.yml").write_text(workflow)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    result = subprocess.run([ROOT / ".ci/workflows", tmp_path], capture_output=True, text=True, check=False)
    assert (result.returncode == 0) is (not finding), result
    assert finding in result.stdout + result.stderr


def list_shell_scripts(read):
    """Yield the shell scripts of the templates that actionlint does not read, each with its name."""
    for step in steps(read(ACTION)):
        yield step.get("name"), step.get("run", "")
    for name, job in read(ROOT / ".ci/gitlab-cost.yml").items():
        yield f"gitlab {name}", "\n".join(job["script"])
    for job in read(ROOT / ".ci/azure-pipelines.yml")["jobs"]:
        yield f"azure {job['job']}", "\n".join(step.get("bash", "") for step in job["steps"])
    for entry in read(ROOT / ".ci/bitbucket-pipelines.yml")["pipelines"]["pull-requests"]["**"]:
        yield f"bitbucket {entry['step']['name']}", "\n".join(entry["step"]["script"])


def test_shell_scripts_of_every_template_pass_shellcheck(ci_tools):
    scripts = list(list_shell_scripts(ci_tools["read"]))
    assert len([script for _, script in scripts if script]) >= 3 + 2 + 2 + 2
    for name, script in scripts:
        command = ["shellcheck", "--shell=bash", "--severity=warning", "-"]
        result = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert result.returncode == 0, (name, result.stdout)


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
