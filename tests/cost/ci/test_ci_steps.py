"""The steps of the action, the workflows, the GitLab job and the shell recipe, run as CI runs them."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

ACTION, FORK = ".github/actions/cost/action.yml", ".github/workflows/cost-fork.yml"
LEAD = "**This change raises the monthly cost of dev by"
MARK = "<!-- gpufleet-cost:dev -->"


@pytest.fixture
def act(tools, runner, github):
    """Run the composite action's shell steps with inputs, in order, until one fails."""

    def run(token="t0ken", **inputs):
        action = tools["read"](ACTION)
        given = {name: str(of.get("default", "")) for name, of in action["inputs"].items()}
        known = {"github.token": token}
        given = {name: tools["expanded"](value, known) for name, value in (given | inputs).items()}
        known |= {f"inputs.{name}": value for name, value in given.items()}
        done = None
        for step in (step for step in action["runs"]["steps"] if "run" in step):
            extra = {name: tools["expanded"](value, known) for name, value in step.get("env", {}).items()}
            done = runner(github).run(step["run"], extra)
            if done.returncode:
                return done
        return done

    return run


def test_the_action_comments_on_the_pull_request(act, github, pull_request):
    done = act(stack="dev")
    assert done.returncode == 0, done.stderr
    (comment,) = github.comments
    assert comment["body"].startswith(LEAD)
    assert comment["body"].endswith(MARK)
    assert "train machine" in comment["body"]
    folder = pull_request.root / "cost"
    assert json.loads((folder / "dev.json").read_text())["change"]["usd_per_month"] > 0
    assert ET.parse(folder / "dev.xml").getroot().get("failures") == "0"
    assert (folder / "pull-request").read_text() == f"{github.number}\n"


def test_a_second_push_updates_the_comment_and_a_broken_policy_fails_the_job_after_it(
    act, github, pull_request
):
    github.add("github-actions[bot]", f"older\n\n{MARK}")
    (pull_request.root / "tight.yaml").write_text("max_increase_usd_per_month: 1\n")
    done = act(stack="dev", policy="tight.yaml")
    assert done.returncode == 1
    assert "policy violated: max_increase_usd_per_month" in done.stderr
    (comment,) = github.comments
    assert "**Policy violated**" in comment["body"]
    assert ET.parse(pull_request.root / "cost/dev.xml").getroot().get("failures") == "1"


def test_a_forks_token_only_reads_and_the_run_ends_well(act, github, tmp_path):
    github.may_write = False
    done = act(stack="dev")
    assert done.returncode == 0, done.stderr
    assert github.comments == []
    assert (tmp_path / "summary.md").read_text().startswith(LEAD)


def test_a_mistake_is_neither_a_comment_nor_a_success(act, github):
    done = act(stack="nowhere")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert github.comments == []


@pytest.fixture
def fork(tools, runner, github, tmp_path):
    """Run the shell steps of the workflow that comments on a fork's request, with what the fork made."""

    def run(head, number="7", text=f"{LEAD} $1 @team\n\n{MARK}\n"):
        folder = tmp_path / "runner/cost/cost-dev"
        folder.mkdir(parents=True)
        (folder / "dev.md").write_text(text)
        (folder / "pull-request").write_text(number)
        known = {"github.token": "t0ken", "github.event.workflow_run.head_sha": head}
        done = None
        for step in tools["read"](FORK)["jobs"]["comment"]["steps"]:
            if "run" in step:
                extra = {name: tools["expanded"](value, known) for name, value in step.get("env", {}).items()}
                done = runner(github).run(step["run"], extra)
        return done

    return run


def test_a_forks_comment_is_posted_by_a_workflow_that_runs_nothing_of_the_fork(fork, github):
    done = fork(github.head)
    assert done.returncode == 0, done.stderr
    (comment,) = github.comments
    assert comment["body"].startswith(LEAD)
    assert "@&#8203;team" in comment["body"]


def test_a_fork_cannot_have_us_write_on_another_request(fork, github):
    done = fork("f" * 40)
    assert done.returncode == 2
    assert "is not at ffff" in done.stderr
    assert github.comments == []


def test_a_fork_cannot_bring_a_command_as_its_number(fork, github):
    done = fork(github.head, number="7; touch pwned")
    assert done.returncode == 1
    assert "no pull request in" in done.stderr
    assert github.comments == []


@pytest.fixture
def job(tools, runner, gitlab):
    """Run the script of the GitLab job, one shell for all its lines as the runner does."""

    def run(token="t0ken", **variables):
        cost = tools["read"](".ci/gitlab-cost.yml")["cost"]
        said = {name: str(value) for name, value in cost["variables"].items()} | variables
        secret = {"GITLAB_TOKEN": token} if token else {}
        return runner(gitlab).run("\n".join(cost["script"]), said | secret)

    return run


def test_the_gitlab_job_comments_on_the_merge_request(job, gitlab, pull_request):
    done = job(COST_STACK="dev", COST_POLICY="")
    assert done.returncode == 0, done.stderr
    (note,) = gitlab.comments
    assert note["body"].startswith(LEAD)
    assert (pull_request.root / "cost/dev.xml").is_file()


def test_a_forks_gitlab_job_has_no_token_and_shows_the_comment_in_its_log(job, gitlab):
    done = job(token="", COST_STACK="dev", COST_POLICY="")
    assert done.returncode == 0, done.stderr
    assert LEAD in done.stdout
    assert gitlab.comments == []


def test_the_shell_recipe_needs_no_code_host(pull_request, clean_env, runner, github):
    done = runner(github).run(".ci/cost dev HEAD^1 out", {"COST_COMMENT": ""})
    assert done.returncode == 0, done.stderr
    assert (pull_request.root / "out/dev.md").read_text().startswith(LEAD)
    assert github.asked == []
