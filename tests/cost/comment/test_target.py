from __future__ import annotations

import pytest

from gpufleet.cost.analysis.comment import read_comment_target
from gpufleet.errors import InputError

ACTIONS = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "acme/fleet", "GITHUB_REF": "refs/pull/12/merge"}
RUNNER = {"GITLAB_CI": "true", "CI_PROJECT_ID": "77", "CI_MERGE_REQUEST_IID": "3"}


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
        ({}, {}, "--provider: not on GitHub or GitLab CI; give github or gitlab"),
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
