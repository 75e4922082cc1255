"""Comments on a GitLab merge request, by the REST API's notes (version 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from gpufleet.cost.analysis.comment.target import CommentTarget
from gpufleet.cost.analysis.comment.transport import ApiClient
from gpufleet.cost.analysis.comment.upsert import PAGES, PER_PAGE, PostedComment
from gpufleet.cost.analysis.reports.comment_text import GITLAB, CommentMarkup


@dataclass
class GitLabCommentThread:
    """The notes of one merge request."""

    markup: ClassVar[CommentMarkup] = GITLAB
    client: ApiClient
    target: CommentTarget

    @classmethod
    def from_comment_target(cls, target: CommentTarget) -> GitLabCommentThread:
        """Return the thread with a client for the target's API. A job token may not write notes."""
        return cls(ApiClient(target.api, {"PRIVATE-TOKEN": target.token}), target)

    @property
    def _request(self) -> str:
        return f"/projects/{quote(self.target.repo, safe='')}/merge_requests/{self.target.number}"

    def fetch_token_user_name(self) -> str:
        """Return the token's user name."""
        return self.target.author or str(self.client.send_request("GET", "/user").body["username"])

    def list_comments(self) -> Iterator[PostedComment]:
        """Yield every note of a person or a bot, the oldest first."""
        page = "1"
        for _ in range(PAGES):
            path = f"{self._request}/notes?sort=asc&order_by=created_at&per_page={PER_PAGE}&page={page}"
            response = self.client.send_request("GET", path)
            for record in response.body or []:
                if not record.get("system"):
                    yield _parse_comment(record)
            page = response.headers.get("x-next-page", "")
            if not page.isdecimal():
                return

    def create_comment(self, body: str) -> tuple[PostedComment, int]:
        """Create a note; return it and the number of tries."""
        response = self.client.send_request("POST", f"{self._request}/notes", {"body": body})
        return _parse_comment(response.body), response.tries

    def update_comment(self, comment: PostedComment, body: str) -> None:
        """Replace a note's text."""
        self.client.send_request("PUT", f"{self._request}/notes/{comment.id}", {"body": body})

    def delete_comment(self, comment: PostedComment) -> None:
        """Remove a note."""
        self.client.send_request("DELETE", f"{self._request}/notes/{comment.id}")

    def fetch_head_commit_sha(self) -> str:
        """Return the merge request's head commit."""
        return str(self.client.send_request("GET", self._request).body["sha"])


def _parse_comment(record: dict[str, Any]) -> PostedComment:
    author = record.get("author") or {}
    return PostedComment(int(record["id"]), str(author.get("username", "")), str(record.get("body") or ""))
