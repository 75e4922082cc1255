"""Test the cost comment, which is created once and then updated, on fakes of both code hosts."""

from __future__ import annotations

import time

import pytest

from gpufleet.cost.analysis import comment
from gpufleet.cost.analysis.reports.markdown import MAX_CHARACTERS, escape_table_cell, stack_comment_marker
from gpufleet.errors import EnvironmentFault, GpufleetError, InputError

MARK = stack_comment_marker("prod")
BITBUCKET_MARK = "[//]: # (gpufleet-cost:prod)"
TEXT = f"**It costs more.**\n\n{MARK}\n"


def bodies(server):
    return [comment["body"].replace(BITBUCKET_MARK, MARK) for comment in server.comments]


def write_earlier(server, author, text):
    """Write a comment as an earlier run wrote it."""
    return server.add(author, text.replace(MARK, BITBUCKET_MARK) if server.provider == "bitbucket" else text)


def test_first_run_creates_second_changes_nothing_third_updates(fake_host, open_thread):
    assert comment.upsert_comment(open_thread(fake_host), TEXT).action == "created"
    assert comment.upsert_comment(open_thread(fake_host), TEXT).action == "unchanged"
    assert comment.upsert_comment(open_thread(fake_host), TEXT.replace("more", "less")).action == "updated"
    assert bodies(fake_host) == [f"**It costs less.**\n\n{MARK}"]


def test_existing_comment_is_found_on_a_later_page(fake_host, open_thread):
    fake_host.page_size = 10
    for at in range(57):
        write_earlier(fake_host, "someone", f"talk {at}")
    own_comment = write_earlier(fake_host, fake_host.login, f"old\n\n{MARK}")
    write_earlier(fake_host, "someone", "more talk")
    assert comment.upsert_comment(open_thread(fake_host), TEXT).action == "updated"
    assert fake_host.find(own_comment)["body"].startswith("**It costs more.**")
    assert len(fake_host.comments) == 59


def test_duplicate_comments_are_removed_except_the_oldest(fake_host, open_thread):
    first, *_ = [write_earlier(fake_host, fake_host.login, f"old {at}\n\n{MARK}") for at in range(3)]
    posted = comment.upsert_comment(open_thread(fake_host), TEXT)
    assert (posted.action, posted.removed) == ("updated", 2)
    assert [comment["id"] for comment in fake_host.comments] == [first]


def test_comment_of_another_user_with_the_same_mark_is_not_changed(fake_host, open_thread):
    write_earlier(fake_host, "mallory", f"mine\n\n{MARK}")
    write_earlier(fake_host, fake_host.login, f"a quotation: {MARK} of another comment")
    assert comment.upsert_comment(open_thread(fake_host), TEXT).action == "created"
    assert bodies(fake_host)[0] == f"mine\n\n{MARK}"
    assert len(fake_host.comments) == 3


def test_each_stack_has_its_own_comment(fake_host, open_thread):
    write_earlier(fake_host, fake_host.login, f"dev\n\n{stack_comment_marker('dev')}")
    assert comment.upsert_comment(open_thread(fake_host), TEXT).action == "created"
    assert len(fake_host.comments) == 2


def test_lost_response_to_a_creation_leaves_one_comment(fake_host, open_thread):
    fake_host.lose_next_answer = True
    posted = comment.upsert_comment(open_thread(fake_host), TEXT)
    assert (posted.action, posted.removed) == ("created", 1)
    assert len(fake_host.comments) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_temporary_errors_are_retried(fake_host, open_thread, status):
    fake_host.script = [(status, {}, None), (status, {}, {"message": "oops"})]
    speaking = open_thread(fake_host)
    assert comment.upsert_comment(speaking, TEXT).action == "created"
    assert speaking.waits == [1.0, 2.0]


def test_client_waits_as_long_as_the_server_requests(fake_host, open_thread):
    fake_host.script = [(429, {"Retry-After": "7"}, {"message": "slow down"})]
    speaking = open_thread(fake_host)
    comment.upsert_comment(speaking, TEXT)
    assert speaking.waits == [7.0]


def test_github_rate_limit_response_is_obeyed(github, open_thread):
    endings = str(int(time.time()) + 30)
    limited = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": endings}
    github.script = [(403, limited, {"message": "API rate limit exceeded"})]
    speaking = open_thread(github)
    assert comment.upsert_comment(speaking, TEXT).action == "created"
    assert 25 < speaking.waits[0] <= 30


def test_waiting_is_bounded(fake_host, open_thread):
    fake_host.script = [(429, {"Retry-After": "3600"}, None)]
    speaking = open_thread(fake_host)
    with pytest.raises(EnvironmentFault, match="longer than the limit"):
        comment.upsert_comment(speaking, TEXT)
    assert speaking.waits == []


def test_permanent_errors_are_reported_after_five_tries(fake_host, open_thread):
    fake_host.script = [(503, {}, None)] * 9
    with pytest.raises(EnvironmentFault, match="failed 5 times: HTTP 503"):
        comment.upsert_comment(open_thread(fake_host), TEXT)
    assert len(fake_host.script) == 4


def test_read_only_token_raises_permission_denied(fake_host, open_thread):
    fake_host.may_write = False
    with pytest.raises(comment.PermissionDenied, match="403"):
        comment.upsert_comment(open_thread(fake_host), TEXT)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (401, EnvironmentFault, "not accepted"),
        (404, InputError, "check both"),
        (301, InputError, "repository has moved"),
        (422, EnvironmentFault, "Validation Failed; too long"),
    ],
)
def test_other_client_errors_are_reported_in_one_line(fake_host, open_thread, status, error, message):
    body = {"message": "Validation Failed", "errors": [{"message": "too long"}]}
    fake_host.script = [(status, {"Location": "http://127.0.0.1:1/"}, body)]
    with pytest.raises(error, match=message) as excinfo:
        comment.upsert_comment(open_thread(fake_host), TEXT)
    assert "\n" not in str(excinfo.value)


def test_pull_request_at_another_commit_is_not_changed(fake_host, open_thread):
    assert comment.upsert_comment(open_thread(fake_host), TEXT, "a" * 40).action == "created"
    with pytest.raises(InputError, match="head is not bbbb"):
        comment.upsert_comment(open_thread(fake_host), TEXT, "b" * 40)


def test_token_is_sent_as_documented(fake_host, open_thread):
    comment.upsert_comment(open_thread(fake_host), TEXT)
    sent = {name.lower(): value for name, value in fake_host.asked[0][2].items()}
    key = "private-token" if fake_host.provider == "gitlab" else "authorization"
    assert sent[key] == ("t0ken" if key == "private-token" else "Bearer t0ken")
    assert sent["user-agent"].startswith("gpufleet/")


def test_text_without_a_mark_is_refused_before_any_request(fake_host, open_thread):
    with pytest.raises(InputError, match="no gpufleet mark"):
        comment.upsert_comment(open_thread(fake_host), "hello")
    assert fake_host.asked == []


@pytest.mark.parametrize("mention", ["@everyone", "&#64;everyone", "&commat;everyone", r"\@everyone"])
def test_mention_is_displayed_as_code(mention):
    assert comment.prepare_comment_body(f"{mention} look\n\n{MARK}") == f"`@everyone` look\n\n{MARK}"


def test_line_of_the_file_that_begins_with_a_slash_is_not_a_quick_action(fake_host, open_thread):
    comment.upsert_comment(open_thread(fake_host), f"**It costs more.**\n/approve\n\n/merge\n\n{MARK}\n")
    assert bodies(fake_host) == [f"**It costs more.**\n\n`/approve`\n\n`/merge`\n\n{MARK}"]


def test_comment_that_was_prepared_is_not_changed_again():
    text = escape_table_cell("@team #12 www.example.org https://example.org $5.00") + "\n\n" + MARK
    assert comment.prepare_comment_body(text) == text


def test_escapes_of_an_earlier_version_are_read():
    text = f"| a\\_b | @&#8203;team | x\\|y &lt;b&gt; |\n\n{MARK}"
    expected = "| `a_b` | `@team` | `x`&#124;`y` `<b>` |"
    assert comment.prepare_comment_body(text) == f"{expected}\n\n{MARK}"


@pytest.mark.parametrize("opened", [0, 1])
def test_too_long_text_is_truncated_at_a_line_with_a_note(opened):
    long = (
        "<details>\n<summary>x</summary>\n\n" * opened
        + "| a row of some length |\n" * 9000
        + "</details>\n" * opened
    )
    text = comment.prepare_comment_body(f"{long}\n\n{MARK}")
    assert len(text) <= MAX_CHARACTERS
    assert text.endswith(f"{comment.upsert.CUT}\n\n{MARK}")
    assert text.count("<details>") == text.count("</details>") == opened


@pytest.mark.parametrize(
    "answer", [None, 5, "x", [], {}, [5], {"value": 5}, {"values": [{"id": "x"}]}, {"id": []}]
)
def test_answer_of_another_form_is_an_error_and_no_traceback(fake_host, open_thread, answer):
    fake_host.script = [(200, {}, answer)] * 10
    with pytest.raises(GpufleetError) as error:
        comment.upsert_comment(open_thread(fake_host), TEXT, "a" * 40)
    assert "\n" not in str(error.value)
