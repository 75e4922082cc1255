"""Test the steps of the action, the workflows, the GitLab job and the shell recipe as CI runs them."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET

import pytest

from comment_reader import read_comment

ACTION, COMMENT = ".github/actions/cost/action.yml", ".github/workflows/cost-comment.yml"
LEAD = "**This change raises the monthly cost of dev by"
MARK = "<!-- gpufleet-cost:dev -->"


@pytest.fixture
def run_action(ci_tools, make_runner, github):
    """Run the composite action's shell steps with inputs, in order, until one fails."""

    def run(**inputs):
        action = ci_tools["read"](ACTION)
        environment = {name: str(of.get("default", "")) for name, of in action["inputs"].items()}
        environment |= inputs
        known = {f"inputs.{name}": value for name, value in environment.items()}
        result = None
        for step in (step for step in action["runs"]["steps"] if "run" in step):
            extra = {name: ci_tools["expanded"](value, known) for name, value in step.get("env", {}).items()}
            result = make_runner(github).run(step["run"], extra)
            if result.returncode:
                return result
        return result

    return run


@pytest.mark.parametrize("pull_request", ["shipped"], indirect=True)
def test_action_writes_reports_without_calling_the_code_host(run_action, github, pull_request, tmp_path):
    result = run_action(stack="dev")
    assert result.returncode == 0, result.stderr
    folder = pull_request.root / "cost"
    assert (folder / "dev.md").read_text().startswith(LEAD)
    assert "| train `machine:spot` |" in (folder / "dev.md").read_text()
    assert json.loads((folder / "dev.json").read_text())["change"]["usd_per_month"] > 0
    assert ET.parse(folder / "dev.xml").getroot().get("failures") == "0"
    assert (tmp_path / "summary.md").read_text().startswith(LEAD)
    assert github.asked == []


def test_violated_policy_fails_the_job_after_the_reports_are_written(run_action, pull_request, tmp_path):
    (pull_request.root / "tight.yaml").write_text("max_increase_usd_per_month: 1\n")
    result = run_action(stack="dev", policy="tight.yaml")
    assert result.returncode == 1
    assert "policy violated: max_increase_usd_per_month" in result.stderr
    assert "**Policy violated**" in (tmp_path / "summary.md").read_text()
    assert ET.parse(pull_request.root / "cost/dev.xml").getroot().get("failures") == "1"


def test_invalid_stack_exits_with_2_and_writes_no_report(run_action, pull_request):
    result = run_action(stack="nowhere")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert not (pull_request.root / "cost/nowhere.md").exists()


@pytest.fixture
def run_comment_workflow(ci_tools, make_runner, github, tmp_path):
    """Run the shell steps of the workflow that comments, with artifacts as the pricing job left them."""

    def run(head_sha, text=f"{LEAD} $1 @team.**\n\n{MARK}\n", name="cost-dev/dev.md", branch="change"):
        path = tmp_path / "runner/cost" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.write_text(text)
        known = {
            "github.token": "t0ken",
            "github.event.workflow_run.head_sha": head_sha,
            "github.event.workflow_run.head_branch": branch,
            "github.event.workflow_run.head_repository.owner.login": "stranger",
        }
        result = None
        for step in ci_tools["read"](COMMENT)["jobs"]["comment"]["steps"]:
            if "run" in step:
                extra = {
                    name: ci_tools["expanded"](value, known) for name, value in step.get("env", {}).items()
                }
                result = make_runner(github).run(step["run"], extra)
        return result

    return run


def test_comment_workflow_runs_no_pull_request_code(run_comment_workflow, github):
    result = run_comment_workflow(github.head)
    assert result.returncode == 0, result.stderr
    (posted,) = github.comments
    assert posted["body"].startswith(LEAD)
    assert "`@team`" in posted["body"]


def test_second_run_updates_the_comment(run_comment_workflow, github):
    github.add("github-actions[bot]", f"older\n\n{MARK}")
    assert run_comment_workflow(github.head).returncode == 0
    (posted,) = github.comments
    assert posted["body"].startswith(LEAD)


def test_token_without_write_permission_succeeds_and_prints_the_comment_in_the_summary(
    run_comment_workflow, github, tmp_path
):
    github.may_write = False
    result = run_comment_workflow(github.head)
    assert result.returncode == 0, result.stderr
    assert github.comments == []
    assert (tmp_path / "summary.md").read_text().startswith(LEAD)


@pytest.mark.parametrize(("head_sha", "branch"), [("f" * 40, "change"), ("a" * 40, "another")])
def test_only_the_pull_request_of_the_event_gets_a_comment(run_comment_workflow, github, head_sha, branch):
    result = run_comment_workflow(head_sha, branch=branch)
    assert result.returncode == 2
    assert "0 open pull requests are at" in result.stderr
    assert github.comments == []


@pytest.mark.parametrize("name", ["cost-dev/a b.md", "cost-$(id)/dev.md", "cost-dev/-x;y.md"])
def test_artifact_with_another_name_is_refused(run_comment_workflow, github, name):
    result = run_comment_workflow(github.head, name=name)
    assert result.returncode == 1
    assert "not a comment's name" in result.stderr
    assert github.comments == []


def test_artifact_that_is_too_large_or_a_link_is_refused(run_comment_workflow, github, tmp_path):
    result = run_comment_workflow(github.head, text="x" * 2_000_000 + MARK)
    assert (result.returncode, github.comments) == (2, [])
    assert "is too large" in result.stderr
    path = tmp_path / "runner/cost/cost-dev/dev.md"
    path.unlink()
    path.symlink_to("/etc/passwd")
    result = run_comment_workflow(github.head)
    assert (result.returncode, github.comments) == (2, [])
    assert "is a symbolic link" in result.stderr


def test_html_links_and_images_of_an_artifact_are_displayed_as_text(run_comment_workflow, github):
    hostile = "<img src=x onerror=y> ![a](https://b) [click](javascript:c) https\\://d &commat;all\n/merge"
    folded = "<details>\n<summary>s</summary>\n\nx\n\n</details>"
    assert run_comment_workflow(github.head, text=f"{hostile}\n\n{folded}\n\n{MARK}\n").returncode == 0
    body = github.comments[0]["body"]
    comment = read_comment(body)
    assert comment.faults == ()
    assert comment.text.split("\n")[1] == "/merge"
    assert folded in body


@pytest.fixture
def run_namespace_step(ci_tools, make_runner, github, tmp_path):
    """Run the action's step that may change the machine, with a file as the kernel's setting and a sudo that obeys."""
    setting, tools = tmp_path / "restrict_unprivileged_userns", tmp_path / "tools"
    tools.mkdir()
    (tools / "sudo").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (tools / "sudo").chmod(0o755)

    def run(environment, value="1"):
        setting.write_text(f"{value}\n")
        steps = ci_tools["read"](ACTION)["runs"]["steps"]
        (script,) = (step["run"] for step in steps if step["name"] == "Allow namespaces")
        script = re.sub(r"/proc/sys/kernel/\w+", str(setting), script)
        extra = {"PATH": f"{tools}:{os.environ['PATH']}", **environment}
        result = make_runner(github).run(script, extra)
        assert result.returncode == 0, result.stderr
        return setting.read_text().strip(), result.stderr

    return run


@pytest.mark.parametrize("environment", [{"RUNNER_ENVIRONMENT": "self-hosted"}, {}])
def test_action_leaves_the_apparmor_limit_of_a_self_hosted_machine_on(run_namespace_step, environment):
    value, hint = run_namespace_step(environment)
    assert value == "1"
    assert "docs/cost-in-ci.md" in hint
    assert run_namespace_step(environment, "0") == ("0", "")


def test_action_switches_the_limit_off_on_a_machine_that_github_deletes(run_namespace_step):
    assert run_namespace_step({"RUNNER_ENVIRONMENT": "github-hosted"}) == ("0", "")


@pytest.fixture
def run_gitlab_job(ci_tools, make_runner, gitlab, pull_request):
    """Run the script of a GitLab job, one shell for all its lines as the runner does."""
    pull_request.git("branch", "-f", "main", pull_request.base)
    pull_request.git("remote", "add", "origin", str(pull_request.root))

    def run(name, token="", **variables):
        cost = ci_tools["read"](".ci/gitlab-cost.yml")[name]
        job_variables = {name: str(value) for name, value in cost.get("variables", {}).items()} | variables
        secret = {"GITLAB_TOKEN": token} if token else {}
        return make_runner(gitlab).run(
            "\n".join(cost["script"]), {"CI_DEFAULT_BRANCH": "main"} | job_variables | secret
        )

    return run


def test_gitlab_jobs_price_without_a_token_and_comment_from_the_default_branch(
    run_gitlab_job, gitlab, pull_request
):
    result = run_gitlab_job("cost", COST_STACK="dev", COST_POLICY="")
    assert result.returncode == 0, result.stderr
    assert (pull_request.root / "cost/dev.xml").is_file()
    assert gitlab.comments == []
    result = run_gitlab_job("cost-comment", token="t0ken")
    assert result.returncode == 0, result.stderr
    (note,) = gitlab.comments
    assert note["body"].startswith(LEAD)
    assert pull_request.git("rev-parse", "HEAD") == pull_request.base


def test_gitlab_job_of_a_fork_has_no_token_and_prints_the_comment(run_gitlab_job, gitlab):
    assert run_gitlab_job("cost", COST_STACK="dev", COST_POLICY="").returncode == 0
    result = run_gitlab_job("cost-comment")
    assert result.returncode == 0, result.stderr
    assert LEAD in result.stdout
    assert gitlab.comments == []


@pytest.fixture
def run_azure_job(ci_tools, make_runner, azure_repos, pull_request):
    """Run the scripts of a job of Azure Pipelines; a step's variables are only for that step."""
    pull_request.git("branch", "-f", "main", pull_request.base)
    pull_request.git("remote", "add", "origin", str(pull_request.root))
    pull_request.git("fetch", "-q", "origin")

    def run(number, token="t0ken", **variables):
        document = ci_tools["read"](".ci/azure-pipelines.yml")
        known = {"$(System.AccessToken)": token}
        (step,) = (step for step in document["jobs"][number]["steps"] if "bash" in step)
        secret = {name: known[value] for name, value in step.get("env", {}).items()}
        return make_runner(azure_repos).run(step["bash"], document["variables"] | variables | secret)

    return run


def test_azure_jobs_price_without_a_token_and_comment_from_the_default_branch(
    run_azure_job, azure_repos, pull_request, tmp_path
):
    result = run_azure_job(0, COST_STACK="dev", COST_POLICY="")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "staging/cost/dev.xml").is_file()
    assert azure_repos.asked == []
    result = run_azure_job(1)
    assert result.returncode == 0, result.stderr
    (thread,) = azure_repos.comments
    assert thread["body"].startswith(LEAD)
    assert pull_request.git("rev-parse", "HEAD") == pull_request.base
    assert run_azure_job(1).stdout.startswith("comment unchanged")


def test_azure_job_without_the_permission_prints_the_comment(run_azure_job, azure_repos):
    assert run_azure_job(0, COST_STACK="dev", COST_POLICY="").returncode == 0
    azure_repos.may_write = False
    result = run_azure_job(1)
    assert result.returncode == 0, result.stderr
    assert LEAD in result.stdout
    assert "PullRequestContribute" in result.stderr


@pytest.fixture
def run_bitbucket_step(ci_tools, make_runner, bitbucket, pull_request):
    """Run the script of a step of Bitbucket Pipelines, one shell that stops at the first failure."""
    pull_request.git("branch", "-f", "main", pull_request.base)
    pull_request.git("remote", "add", "origin", str(pull_request.root))

    def run(number, **variables):
        steps = ci_tools["read"](".ci/bitbucket-pipelines.yml")["pipelines"]["pull-requests"]["**"]
        return make_runner(bitbucket).run("\n".join(steps[number]["step"]["script"]), variables)

    return run


def test_bitbucket_steps_price_without_a_token_and_comment_from_the_default_branch(
    run_bitbucket_step, bitbucket, pull_request
):
    result = run_bitbucket_step(0, COST_STACK="dev")
    assert result.returncode == 0, result.stderr
    assert bitbucket.asked == []
    result = run_bitbucket_step(1, BITBUCKET_TOKEN="t0ken", COST_AUTHOR="{access-token}")
    assert result.returncode == 0, result.stderr
    (posted,) = bitbucket.comments
    assert posted["body"].startswith(LEAD)
    assert posted["body"].endswith("[//]: # (gpufleet-cost:dev)")
    assert "<" not in posted["body"]
    assert "&" not in posted["body"]
    assert pull_request.git("rev-parse", "HEAD") == pull_request.base


def test_broken_policy_fails_the_last_bitbucket_step_after_the_comment(
    run_bitbucket_step, bitbucket, pull_request
):
    (pull_request.root / "tight.yaml").write_text("max_increase_usd_per_month: 1\n")
    assert run_bitbucket_step(0, COST_STACK="dev", COST_POLICY="tight.yaml").returncode == 0
    result = run_bitbucket_step(1, BITBUCKET_TOKEN="t0ken", COST_AUTHOR="{access-token}")
    assert result.returncode == 1
    assert "**Policy violated**" in bitbucket.comments[0]["body"]


def test_wrong_stack_fails_the_first_bitbucket_step(run_bitbucket_step):
    assert run_bitbucket_step(0, COST_STACK="nowhere").returncode == 1


def test_shell_recipe_needs_no_code_host(pull_request, clean_env, make_runner, github):
    result = make_runner(github).run(".ci/cost dev HEAD^1 out")
    assert result.returncode == 0, result.stderr
    assert (pull_request.root / "out/dev.md").read_text().startswith(LEAD)
    assert github.asked == []
