"""One comment on a pull or merge request that updates itself.

A comment's text ends in a mark (``reports.markdown.stack_comment_marker``). The token's own comment with that mark is
updated; if there is none, it is created; duplicates of a race between two runs are deleted. CI gives forks a read-only
token: ``PermissionDenied`` then tells the caller to show the text elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from gpufleet.cost.analysis.comment.azure_repos import AzureReposCommentThread
from gpufleet.cost.analysis.comment.bitbucket import BitbucketCommentThread
from gpufleet.cost.analysis.comment.github import GitHubCommentThread
from gpufleet.cost.analysis.comment.gitlab import GitLabCommentThread
from gpufleet.cost.analysis.comment.target import CommentTarget, read_comment_target
from gpufleet.cost.analysis.comment.transport import PermissionDenied
from gpufleet.cost.analysis.comment.upsert import CommentThread, prepare_comment_body, upsert_comment

THREADS: dict[str, Callable[[CommentTarget], CommentThread]] = {
    "github": GitHubCommentThread.from_comment_target,
    "gitlab": GitLabCommentThread.from_comment_target,
    "azure-repos": AzureReposCommentThread.from_comment_target,
    "bitbucket": BitbucketCommentThread.from_comment_target,
}


def open_comment_thread(target: CommentTarget) -> CommentThread:
    """Return the comments of a target's request at its provider."""
    return THREADS[target.provider](target)


__all__ = [
    "GitHubCommentThread",
    "PermissionDenied",
    "open_comment_thread",
    "prepare_comment_body",
    "read_comment_target",
    "upsert_comment",
]
