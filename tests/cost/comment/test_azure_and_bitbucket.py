"""Test what only Azure Repos and Bitbucket do: sign-in pages, closed threads, Markdown without HTML, short hashes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.cost.analysis import comment
from gpufleet.cost.analysis.reports.markdown import stack_comment_marker
from gpufleet.errors import EnvironmentFault, InputError

MARK = stack_comment_marker("prod")
TEXT = f"**It costs more.**\n\n{MARK}\n"


@pytest.fixture
def open_with(make_environment):
    """Open a fake's thread with other variables of the environment."""

    def build(server, **changes):
        target = comment.read_comment_target(make_environment(server) | changes)
        return comment.open_comment_thread(target)

    return build


def test_token_that_azure_does_not_know_is_an_error_not_an_empty_list(azure_repos, open_with):
    with pytest.raises(EnvironmentFault, match=r"203.*asks to sign in"):
        comment.upsert_comment(open_with(azure_repos, SYSTEM_ACCESSTOKEN="wrong"), TEXT)
    assert azure_repos.comments == []


def test_redirect_of_azure_to_its_sign_in_page_names_the_token(azure_repos, open_with):
    azure_repos.script = [(302, {"Location": "https://spsprodcus.invalid/_signin?realm=x"}, None)]
    with pytest.raises(EnvironmentFault, match=r"302.*token is not accepted"):
        comment.upsert_comment(open_with(azure_repos), TEXT)


def test_personal_token_of_azure_is_a_password(azure_repos, open_with):
    thread = open_with(azure_repos, SYSTEM_ACCESSTOKEN="", AZURE_DEVOPS_EXT_PAT="t0ken")
    assert comment.upsert_comment(thread, TEXT).action == "created"
    assert azure_repos.asked[0][2]["Authorization"] == "Basic OnQwa2Vu"


def test_every_request_to_azure_names_a_version(azure_repos, open_with):
    thread = open_with(azure_repos)
    comment.upsert_comment(thread, TEXT, "a" * 40)
    comment.upsert_comment(thread, TEXT.replace("more", "less"))
    assert [method for method, *_ in azure_repos.asked] == [
        "GET",
        "GET",
        "GET",
        "POST",
        "GET",
        "GET",
        "PATCH",
    ]
    assert azure_repos.comments[0]["body"] == f"**It costs less.**\n\n{MARK}"


def test_unknown_pull_request_of_azure_is_named(azure_repos, open_with):
    with pytest.raises(InputError, match="TF401180"):
        comment.upsert_comment(open_with(azure_repos, SYSTEM_PULLREQUEST_PULLREQUESTID="8"), TEXT)


def test_missing_permission_of_azure_is_named(azure_repos, open_with):
    azure_repos.may_write = False
    with pytest.raises(comment.PermissionDenied, match="PullRequestContribute"):
        comment.upsert_comment(open_with(azure_repos), TEXT)


def test_same_display_name_is_not_the_same_author(azure_repos, open_with):
    azure_repos.add("another-id", f"mine\n\n{MARK}")  # the fake gives every user the same display name
    assert comment.upsert_comment(open_with(azure_repos), TEXT).action == "created"


def test_thread_that_was_removed_meanwhile_is_an_error(azure_repos, open_with):
    thread = open_with(azure_repos)
    posted, _ = thread.create_comment("x")
    azure_repos.comments.clear()
    with pytest.raises(InputError, match="TF401349"):
        thread.update_comment(posted, "y")


def test_bitbucket_gets_markdown_without_html(bitbucket, open_with):
    text = (
        "**More, @team.**\n\n<details>\n<summary>3 unchanged lines</summary>\n\n| a |\n\n</details>\n\n"
        + MARK
    )
    assert comment.upsert_comment(open_with(bitbucket), text).action == "created"
    assert bitbucket.comments[0]["body"] == (
        "**More, `@\u200bteam`.**\n\n**3 unchanged lines**\n\n| a |\n\n[//]: # (gpufleet-cost:prod)"
    )
    assert comment.upsert_comment(open_with(bitbucket), text).action == "unchanged"


def test_link_of_a_created_bitbucket_comment_is_returned(bitbucket, open_with):
    assert comment.upsert_comment(open_with(bitbucket), TEXT).url.endswith("/pull-requests/7#comment-1000")


def test_next_page_is_asked_at_the_same_server(bitbucket, open_with):
    bitbucket.page_size = 2
    for at in range(5):
        bitbucket.add("someone", f"talk {at}")  # the fake's link to the next page leads elsewhere
    assert len(list(open_with(bitbucket).list_comments())) == 5


@pytest.mark.parametrize(("head", "is_same"), [("a" * 40, True), ("b" * 40, False), ("", True)])
def test_shortened_head_of_bitbucket_is_compared(bitbucket, open_with, head, is_same):
    if is_same:
        assert comment.upsert_comment(open_with(bitbucket), TEXT, head).action == "created"
    else:
        with pytest.raises(InputError, match="head is not bbbb"):
            comment.upsert_comment(open_with(bitbucket), TEXT, head)


def test_very_short_head_is_not_taken_for_the_commit(bitbucket, open_with):
    bitbucket.head = "a"
    with pytest.raises(InputError, match="head is not"):
        comment.upsert_comment(open_with(bitbucket), TEXT, "a" * 40)


def test_api_token_of_bitbucket_is_sent_with_its_user(bitbucket, open_with):
    thread = open_with(bitbucket, BITBUCKET_TOKEN="me@example.org:t0ken")
    assert comment.upsert_comment(thread, TEXT).action == "created"


def test_access_token_of_bitbucket_needs_its_author(bitbucket, open_with):
    bitbucket.login = "{access-token}"
    thread = open_with(bitbucket)
    with pytest.raises(EnvironmentFault, match="may not read its own user") as excinfo:
        comment.upsert_comment(thread, TEXT)
    assert "--author" in str(excinfo.value.hint)
    thread.target = replace(thread.target, author="{access-token}")
    assert comment.upsert_comment(thread, TEXT).action == "created"
    assert comment.upsert_comment(thread, TEXT).action == "unchanged"


def test_wrong_token_of_bitbucket_is_named(bitbucket, open_with):
    with pytest.raises(EnvironmentFault, match=r"401 Token is invalid.*not accepted"):
        comment.upsert_comment(open_with(bitbucket, BITBUCKET_TOKEN="wrong"), TEXT)
