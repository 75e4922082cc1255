"""Fixtures: a pull request in a git repository, and CI runners that run workflow steps as documented."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from small_program import write_small_program, write_small_stack

ROOT = Path(__file__).resolve().parents[3]
CI_FILES = (".github",)  # the project has .ci and the examples already

# Importlib mode puts no test folder on the path: the fakes are loaded by their file.
spec = importlib.util.spec_from_file_location("fake_host", ROOT / "tests/cost/comment/fake_host.py")
fake_host = importlib.util.module_from_spec(spec)
sys.modules.setdefault("fake_host", fake_host)
spec.loader.exec_module(fake_host)


class PullRequest:
    """A clone at the merge commit of a pull request that doubles development's hours, or what its rack costs."""

    def __init__(self, root, *, is_shipped_program):
        self.root = root
        if not is_shipped_program:
            write_small_program(root, "dev")
        for part in CI_FILES:
            shutil.copytree(ROOT / part, root / part, dirs_exist_ok=True)
        self.git("add", "-A")
        self.git("commit", "-qm", "bring CI")
        self.base = self.git("rev-parse", "HEAD")
        self.git("checkout", "-qb", "change")
        if is_shipped_program:
            stack = root / "stacks/Pulumi.dev.yaml"
            stack.write_text(stack.read_text().replace("hours_per_month: 160", "hours_per_month: 320", 1))
        else:
            write_small_stack(root, "dev", 2)
        self.git("commit", "-qam", "raise the cost")
        self.head = self.git("rev-parse", "HEAD")
        self.git("checkout", "-q", "--detach", self.base)
        self.git("merge", "-q", "--no-ff", "-m", "merge", self.head)

    def git(self, *arguments):
        command = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *arguments]
        result = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        return result.stdout.strip()


class Runner:
    """Runs the shell steps of an action, a workflow or a job, with the environment that its CI system sets."""

    def __init__(self, request, environment):
        self.request, self.environment = request, environment

    def run(self, script, extra=None, shell=("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")):
        return subprocess.run(
            [*shell, script],
            cwd=self.request.root,
            env=self.environment | (extra or {}),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def expand_expressions(value, known):
    """Put values in the place of ``${{ … }}``, as GitHub does; an expression that is not known is a mistake."""
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: known[match[1]], value)


def read_yaml(path):
    return YAML(typ="safe", pure=True).load((ROOT / path).read_text())


@pytest.fixture
def pull_request(project, request):
    """Give a pull request to a small program, or with the parameter ``shipped`` to the project's own."""
    return PullRequest(project, is_shipped_program=getattr(request, "param", "small") == "shipped")


@pytest.fixture
def github():
    server = fake_host.FakeGitHub("github-actions[bot]")
    yield server
    server.close()


@pytest.fixture
def gitlab():
    server = fake_host.FakeGitLab("project_7_bot")
    yield server
    server.close()


@pytest.fixture
def azure_repos():
    server = fake_host.FakeAzureRepos("5a1d0000-0000-4000-8000-00000000b01d")
    yield server
    server.close()


@pytest.fixture
def bitbucket():
    server = fake_host.FakeBitbucket("{access-token}")
    yield server
    server.close()


def _azure_variables(server, folder):
    """Return what "Use predefined variables" (learn.microsoft.com) says of a pull request's job."""
    project, repository = server.repo.split("/")
    return {
        "TF_BUILD": "True",
        "BUILD_REASON": "PullRequest",
        "BUILD_REPOSITORY_PROVIDER": "TfsGit",
        "BUILD_REPOSITORY_ID": repository,
        "SYSTEM_TEAMPROJECT": project,
        "SYSTEM_COLLECTIONURI": f"{server.address}/",
        "SYSTEM_PULLREQUEST_PULLREQUESTID": str(server.number),
        "BUILD_ARTIFACTSTAGINGDIRECTORY": str(folder / "staging"),
        "PIPELINE_WORKSPACE": str(folder / "staging"),
    }


def _bitbucket_variables(server, request):
    """Return what "Variables and secrets" (support.atlassian.com) says of a pull request's step."""
    return {
        "BITBUCKET_BUILD_NUMBER": "3",
        "BITBUCKET_REPO_FULL_NAME": server.repo,
        "BITBUCKET_PR_ID": str(server.number),
        "BITBUCKET_PR_DESTINATION_COMMIT": request.base[:12],
        "BITBUCKET_API_URL": f"{server.address}/2.0",
    }


@pytest.fixture
def make_runner(pull_request, clean_env, tmp_path):
    """Make a runner of either code host, with what its documentation says is set for a request."""

    def build(server):
        common = clean_env | {"CI": "true"}
        (tmp_path / "summary.md").touch()
        if isinstance(server, fake_host.FakeGitHub):
            return Runner(
                pull_request,
                common
                | {
                    "GITHUB_ACTIONS": "true",
                    "GITHUB_REPOSITORY": server.repo,
                    "GITHUB_REF": f"refs/pull/{server.number}/merge",
                    "GITHUB_API_URL": server.address,
                    "GITHUB_ACTION_PATH": str(pull_request.root / ".github/actions/cost"),
                    "GITHUB_PATH": str(tmp_path / "path"),
                    "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
                    "RUNNER_TEMP": str(tmp_path / "runner"),
                },
            )
        if isinstance(server, fake_host.FakeAzureRepos):
            return Runner(pull_request, common | _azure_variables(server, tmp_path))
        if isinstance(server, fake_host.FakeBitbucket):
            return Runner(pull_request, common | _bitbucket_variables(server, pull_request))
        return Runner(
            pull_request,
            common
            | {
                "GITLAB_CI": "true",
                "CI_PIPELINE_SOURCE": "merge_request_event",
                "CI_PROJECT_ID": "99",  # a fork's own; the request belongs to the project it goes to
                "CI_MERGE_REQUEST_PROJECT_ID": server.repo,
                "CI_MERGE_REQUEST_IID": str(server.number),
                "CI_MERGE_REQUEST_DIFF_BASE_SHA": pull_request.base,
                "CI_API_V4_URL": f"{server.address}/api/v4",
            },
        )

    return build


@pytest.fixture
def ci_tools():
    """Give what tests of CI files share."""
    return {"read": read_yaml, "expanded": expand_expressions}
