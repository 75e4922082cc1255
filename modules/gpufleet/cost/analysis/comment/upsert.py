"""Create or update our comment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from gpufleet.cost.analysis.comment.document import rewrite_comment
from gpufleet.cost.analysis.comment.transport import PermissionDenied
from gpufleet.cost.analysis.reports.comment_text import GITHUB, CommentMarkup
from gpufleet.cost.analysis.reports.markdown import MAX_CHARACTERS
from gpufleet.errors import EnvironmentFault, GpufleetError, InputError

PER_PAGE, PAGES = 100, 100
SHORT_HASH = 12
MARKER = re.compile(r"<!-- gpufleet-cost:([A-Za-z0-9_.%~-]*) -->")
# What reading a document raises that lacks a key, or has another type in its place.
UNEXPECTED_FORM = (AttributeError, IndexError, KeyError, TypeError, ValueError)
FOLD_END = "\n\n</details>"
CUT = "This comment was over the size limit; the rest is omitted."


@dataclass(frozen=True)
class PostedComment:
    """One comment at the provider."""

    id: int
    author: str
    body: str
    url: str = ""


@dataclass(frozen=True)
class CommentUpsertResult:
    """The action taken, and the number of removed duplicates."""

    action: Literal["created", "updated", "unchanged"]
    url: str = ""
    removed: int = 0


class CommentThread(Protocol):
    """The comments of one request at any provider."""

    markup: ClassVar[CommentMarkup]

    def fetch_token_user_name(self) -> str: ...
    def list_comments(self) -> Iterator[PostedComment]: ...
    def create_comment(self, body: str) -> tuple[PostedComment, int]: ...
    def update_comment(self, comment: PostedComment, body: str) -> None: ...
    def delete_comment(self, comment: PostedComment) -> None: ...
    def fetch_head_commit_sha(self) -> str: ...


def upsert_comment(thread: CommentThread, text: str, expected_head_sha: str = "") -> CommentUpsertResult:
    """Create our comment or update it, and remove duplicates with the same mark.

    ``expected_head_sha`` is the commit of the text; raise InputError if the request is at another one, EnvironmentFault
    if the server's answers do not have the documented form.
    """
    try:
        return _upsert_comment(thread, text, expected_head_sha)
    except GpufleetError:
        raise  # some are ValueErrors too
    except UNEXPECTED_FORM as error:
        raise EnvironmentFault(
            f"the server's answer does not have the documented form: {type(error).__name__} {error}",
            hint="check that the address is that of the provider's API",
        ) from error


def _upsert_comment(thread: CommentThread, text: str, expected_head_sha: str) -> CommentUpsertResult:
    if expected_head_sha and not _is_same_commit(thread.fetch_head_commit_sha(), expected_head_sha):
        raise InputError(
            f"the pull request's head is not {expected_head_sha[:12]}",
            where="--head-sha",
            remedy="the branch has a newer commit, or the file belongs to another pull request",
        )
    body, marker = prepare_comment_body(text, thread.markup), _format_marker(text, thread.markup)
    own_comments = _own_comments(thread, marker)
    if own_comments:
        return _update_first(thread, own_comments, body)
    created, attempts = thread.create_comment(body)
    duplicates = (
        _own_comments(thread, marker)[1:] if attempts > 1 else []
    )  # a try without a response may have succeeded
    return CommentUpsertResult("created", created.url, _remove_duplicates(thread, duplicates))


def _is_same_commit(head: str, expected: str) -> bool:
    """Return whether a head is the commit; Bitbucket shortens it."""
    return len(head) >= SHORT_HASH and expected.startswith(head)


def prepare_comment_body(text: str, markup: CommentMarkup = GITHUB) -> str:
    """Return a file's text for a code host: displayed as text, within the size limit, ending in its marker."""
    marker = _format_marker(text, markup)
    body = rewrite_comment(MARKER.sub("", text), markup)
    full_text = f"{body}\n\n{marker}"
    if len(full_text) <= MAX_CHARACTERS:
        return full_text
    note = f"\n\n{CUT}\n\n{marker}"
    shortened = body[: MAX_CHARACTERS - len(note) - len(FOLD_END)].rpartition("\n")[0]
    lines = shortened.split("\n")
    is_folded = lines.count("<details>") > lines.count("</details>")
    return f"{shortened}{FOLD_END if is_folded else ''}{note}"


def _format_marker(text: str, markup: CommentMarkup) -> str:
    """Return the marker of a file as the code host gets it."""
    names = MARKER.findall(text)
    if not names:
        raise InputError(
            "has no gpufleet marker",
            where="--file",
            remedy="give the output of `gpufleet cost diff --format markdown`",
        )
    return markup.format_marker(str(names[-1]))


def _own_comments(thread: CommentThread, marker: str) -> list[PostedComment]:
    """Return our own comments with this marker, not those of others that quote it."""
    author = thread.fetch_token_user_name()
    return [
        comment
        for comment in thread.list_comments()
        if comment.author == author and comment.body.rstrip().endswith(marker)
    ]


def _update_first(thread: CommentThread, own_comments: list[PostedComment], body: str) -> CommentUpsertResult:
    first, *duplicates = own_comments
    is_unchanged = first.body.replace("\r\n", "\n").rstrip() == body
    if not is_unchanged:
        thread.update_comment(first, body)
    return CommentUpsertResult(
        "unchanged" if is_unchanged else "updated", first.url, _remove_duplicates(thread, duplicates)
    )


def _remove_duplicates(thread: CommentThread, duplicates: list[PostedComment]) -> int:
    """Remove duplicates of a race, if allowed; return how many."""
    removed_count = 0
    for each in duplicates:
        try:
            thread.delete_comment(each)
        except (PermissionDenied, InputError):
            continue  # another run was faster, or the token may not delete
        removed_count += 1
    return removed_count
