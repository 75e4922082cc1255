"""One comment on a pull or merge request that updates itself.

A comment's text ends in a mark (``reports.markdown.stack_comment_marker``). The token's own comment with that mark is
updated; if there is none, it is created; duplicates of a race between two runs are deleted. CI gives forks a read-only
token: ``PermissionDenied`` then tells the caller to show the text elsewhere.
"""

from __future__ import annotations

from gpufleet.cost.analysis.comment.github import GitHubCommentThread
from gpufleet.cost.analysis.comment.gitlab import GitLabCommentThread
from gpufleet.cost.analysis.comment.target import CommentTarget, read_comment_target
from gpufleet.cost.analysis.comment.transport import ApiClient, PermissionDenied
from gpufleet.cost.analysis.comment.upsert import (
    CommentUpsertResult,
    PostedComment,
    prepare_comment_body,
    upsert_comment,
)

__all__ = [
    "ApiClient",
    "CommentTarget",
    "CommentUpsertResult",
    "GitHubCommentThread",
    "GitLabCommentThread",
    "PermissionDenied",
    "PostedComment",
    "prepare_comment_body",
    "read_comment_target",
    "upsert_comment",
]
