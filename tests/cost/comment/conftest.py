from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from gpufleet.cost.analysis import comment

# Importlib mode puts no test folder on the path: the fakes are loaded by their file.
spec = importlib.util.spec_from_file_location("fake_host", Path(__file__).with_name("fake_host.py"))
fake_hosts = importlib.util.module_from_spec(spec)
sys.modules.setdefault("fake_host", fake_hosts)
spec.loader.exec_module(fake_hosts)

HOSTS = {
    "github": (fake_hosts.FakeGitHub, "github-actions[bot]"),
    "gitlab": (fake_hosts.FakeGitLab, "project_7_bot"),
    "azure-repos": (fake_hosts.FakeAzureRepos, "5a1d0000-0000-4000-8000-00000000b01d"),
    "bitbucket": (fake_hosts.FakeBitbucket, "{b1d00000-0000-4000-8000-000000000007}"),
}


def make_host(name):
    kind, login = HOSTS[name]
    server = kind(login)
    server.provider = name
    return server


@pytest.fixture(params=HOSTS)
def fake_host(request):
    """Give a fake of each code host."""
    server = make_host(request.param)
    yield server
    server.close()


@pytest.fixture
def github():
    server = make_host("github")
    yield server
    server.close()


@pytest.fixture
def azure_repos():
    server = make_host("azure-repos")
    yield server
    server.close()


@pytest.fixture
def bitbucket():
    server = make_host("bitbucket")
    yield server
    server.close()


@pytest.fixture
def make_environment():
    """Return what CI says about itself at a fake."""

    def build(server, token="t0ken"):
        if server.provider == "github":
            return {
                "GITHUB_ACTIONS": "true",
                "GITHUB_REPOSITORY": server.repo,
                "GITHUB_REF": f"refs/pull/{server.number}/merge",
                "GITHUB_API_URL": server.address,
                "GITHUB_TOKEN": token,
            }
        if server.provider == "azure-repos":
            project, repository = server.repo.split("/")
            return {
                "TF_BUILD": "True",
                "BUILD_REPOSITORY_PROVIDER": "TfsGit",
                "BUILD_REPOSITORY_ID": repository,
                "SYSTEM_TEAMPROJECT": project,
                "SYSTEM_COLLECTIONURI": f"{server.address}/",
                "SYSTEM_PULLREQUEST_PULLREQUESTID": str(server.number),
                "SYSTEM_ACCESSTOKEN": token,
            }
        if server.provider == "bitbucket":
            return {
                "BITBUCKET_BUILD_NUMBER": "12",
                "BITBUCKET_REPO_FULL_NAME": server.repo,
                "BITBUCKET_PR_ID": str(server.number),
                "BITBUCKET_API_URL": f"{server.address}/2.0",
                "BITBUCKET_TOKEN": token,
            }
        return {
            "GITLAB_CI": "true",
            "CI_PROJECT_ID": server.repo,
            "CI_MERGE_REQUEST_IID": str(server.number),
            "CI_API_V4_URL": f"{server.address}/api/v4",
            "GITLAB_TOKEN": token,
        }

    return build


@pytest.fixture
def open_thread(make_environment):
    """Speak to a fake as the command does, but without waiting; ``waits`` keeps what was asked for."""

    def build(server):
        place = comment.read_comment_target(make_environment(server))
        host_thread = comment.open_comment_thread(place)
        host_thread.waits = []
        host_thread.client.sleep = host_thread.waits.append
        return host_thread

    return build
