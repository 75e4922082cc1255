"""One comment on a pull or merge request that updates itself.

In come a comment's text with its mark (``reports.markdown.marker``), the request it belongs to and a token. The
comment that carries the mark and is our own is updated; where there is none it is made; further ones of a race
between two runs go. A token that may only read, as CI gives it to forks, is no failure: ``Refused`` says so and
the caller shows the text elsewhere.
"""

from __future__ import annotations

from gpufleet.cost.analysis.comment.github import GitHub
from gpufleet.cost.analysis.comment.gitlab import GitLab
from gpufleet.cost.analysis.comment.target import CommentTarget, read_target
from gpufleet.cost.analysis.comment.transport import Client, PermissionDenied
from gpufleet.cost.analysis.comment.upsert import Comment, UpsertResult, prepare_body, upsert_comment

__all__ = [
    "Client",
    "Comment",
    "CommentTarget",
    "GitHub",
    "GitLab",
    "PermissionDenied",
    "UpsertResult",
    "prepare_body",
    "read_target",
    "upsert_comment",
]
