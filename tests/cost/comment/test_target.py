from __future__ import annotations

import pytest

from gpufleet.cost.analysis.comment import read_comment_target
from gpufleet.errors import InputError

ACTIONS = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "acme/fleet", "GITHUB_REF": "refs/pull/12/merge"}
RUNNER = {"GITLAB_CI": "true", "CI_PROJECT_ID": "77", "CI_MERGE_REQUEST_IID": "3"}

AZURE = {
    "TF_BUILD": "True",
    "BUILD_REPOSITORY_PROVIDER": "TfsGit",
    "BUILD_REPOSITORY_ID": "0f7c1d2e-0000-4000-8000-000000000001",
    "SYSTEM_TEAMPROJECT": "GPU Fleet",
    "SYSTEM_COLLECTIONURI": "https://dev.azure.com/acme/",
    "SYSTEM_PULLREQUEST_PULLREQUESTID": "41",
}
PIPELINES = {"BITBUCKET_BUILD_NUMBER": "3", "BITBUCKET_REPO_FULL_NAME": "acme/fleet", "BITBUCKET_PR_ID": "9"}


def test_target_is_read_from_azure_pipelines():
    place = read_comment_target(AZURE | {"SYSTEM_ACCESSTOKEN": "t"})
    assert (place.provider, place.number, place.token, place.is_job_token) == ("azure-repos", 41, "t", True)
    assert place.repo == "GPU Fleet/0f7c1d2e-0000-4000-8000-000000000001"
    assert place.api == "https://dev.azure.com/acme"
    assert not read_comment_target(AZURE | {"AZURE_DEVOPS_EXT_PAT": "t"}).is_job_token


def test_azure_repository_is_given_with_its_organization():
    place = read_comment_target({}, provider="azure-repos", repo="acme/GPU Fleet/infra", number=1)
    assert (place.api, place.repo) == ("https://dev.azure.com/acme", "GPU Fleet/infra")


def test_github_repository_that_azure_pipelines_builds_is_not_in_azure_repos():
    with pytest.raises(InputError, match="known provider"):
        read_comment_target(AZURE | {"BUILD_REPOSITORY_PROVIDER": "GitHub"})


def test_target_is_read_from_bitbucket_pipelines():
    place = read_comment_target(PIPELINES | {"BITBUCKET_TOKEN": "t"})
    assert (place.provider, place.repo, place.number) == ("bitbucket", "acme/fleet", 9)
    assert (place.api, place.token) == ("https://api.bitbucket.org/2.0", "t")


def test_target_is_read_from_ci_variables():
    place = read_comment_target(ACTIONS | {"GITHUB_TOKEN": "t"})
    assert (place.provider, place.repo, place.number) == ("github", "acme/fleet", 12)
    assert (place.api, place.token) == ("https://api.github.com", "t")
    place = read_comment_target(RUNNER)
    assert (place.provider, place.repo, place.number, place.token) == ("gitlab", "77", 3, "")


def test_arguments_take_precedence_over_ci_variables():
    place = read_comment_target(ACTIONS, repo="other/one", number=5)
    assert (place.repo, place.number) == ("other/one", 5)


def test_token_is_not_in_the_representation():
    assert "s3cret" not in repr(read_comment_target(ACTIONS | {"GITHUB_TOKEN": "s3cret"}))


@pytest.mark.parametrize(
    ("environment", "arguments", "message"),
    [
        (
            {},
            {},
            "--provider: not on the CI system of a known provider; give one of github, gitlab, azure-repos",
        ),
        (AZURE, {"repo": "team/.."}, "--repo: 'team/..' is not a repository"),
        (
            AZURE | {"SYSTEM_COLLECTIONURI": ""},
            {},
            "has no organization; give ORGANIZATION/PROJECT/REPOSITORY",
        ),
        (AZURE | {"SYSTEM_PULLREQUEST_PULLREQUESTID": ""}, {}, "--pr: no pull or merge request given"),
        (PIPELINES | {"BITBUCKET_PR_ID": ""}, {}, "--pr: no pull or merge request given"),
        (PIPELINES, {"repo": "acme/fl?et"}, "--repo: 'acme/fl?et' is not a repository"),
        (ACTIONS, {"repo": "acme/fleet/../../user"}, "--repo: 'acme/fleet/../../user' is not a repository"),
        (ACTIONS | {"GITHUB_REF": "refs/heads/main"}, {}, "--pr: no pull or merge request given"),
        (ACTIONS | {"GITHUB_API_URL": "http://evil.example"}, {}, "is not an HTTPS address"),
    ],
)
def test_mistakes_are_reported_in_one_line(environment, arguments, message):
    with pytest.raises(InputError) as excinfo:
        read_comment_target(environment, **arguments)
    assert message in str(excinfo.value)
    assert "\n" not in str(excinfo.value)
