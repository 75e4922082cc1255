"""Comments on a Bitbucket Cloud pull request, by the REST API (version 2.0).

Bitbucket displays Markdown without HTML: what the report folds is under a title there, and the mark is a link
definition, which is not displayed either.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from gpufleet.cost.analysis.comment.target import CommentTarget
from gpufleet.cost.analysis.comment.transport import ApiClient, PermissionDenied
from gpufleet.cost.analysis.comment.upsert import PAGES, PER_PAGE, PostedComment
from gpufleet.cost.analysis.reports.comment_text import BITBUCKET, CommentMarkup
from gpufleet.errors import EnvironmentFault


@dataclass
class BitbucketCommentThread:
    """The comments of one pull request."""

    markup: ClassVar[CommentMarkup] = BITBUCKET
    client: ApiClient
    target: CommentTarget

    @classmethod
    def from_comment_target(cls, target: CommentTarget) -> BitbucketCommentThread:
        """Return the thread with a client for the target's API: USER:TOKEN is an API token, else an access token."""
        is_basic = ":" in target.token
        value = b64encode(target.token.encode()).decode() if is_basic else target.token
        headers = {
            "Authorization": f"{'Basic' if is_basic else 'Bearer'} {value}",
            "Accept": "application/json",
        }
        return cls(ApiClient(target.api, headers), target)

    @property
    def _request(self) -> str:
        return f"/repositories/{self.target.repo}/pullrequests/{self.target.number}"

    def fetch_token_user_name(self) -> str:
        """Return the UUID of the token's user."""
        if self.target.author:
            return self.target.author
        try:
            return str(self.client.send_request("GET", "/user").body["uuid"])
        except PermissionDenied as refusal:
            problem = f"the token may not read its own user ({refusal})"
            hint = "give --author with the UUID in braces of the user that comments"
            raise EnvironmentFault(problem, hint=hint) from None

    def list_comments(self) -> Iterator[PostedComment]:
        """Yield every comment on the whole request that is not deleted, the oldest first."""
        for page in range(1, PAGES + 1):
            path = f"{self._request}/comments?sort=created_on&pagelen={PER_PAGE}&page={page}"
            body = self.client.send_request("GET", path).body
            for record in body.get("values") or []:
                if not record.get("deleted") and not record.get("inline"):
                    yield _parse_comment(record)
            if not body.get("next"):  # an address: the token is not sent there
                return

    def create_comment(self, body: str) -> tuple[PostedComment, int]:
        """Create a comment; return it and the number of tries."""
        response = self.client.send_request("POST", f"{self._request}/comments", {"content": {"raw": body}})
        return _parse_comment(response.body), response.tries

    def update_comment(self, comment: PostedComment, body: str) -> None:
        """Replace a comment's text."""
        path = f"{self._request}/comments/{comment.id}"
        self.client.send_request("PUT", path, {"content": {"raw": body}})

    def delete_comment(self, comment: PostedComment) -> None:
        """Remove a comment."""
        self.client.send_request("DELETE", f"{self._request}/comments/{comment.id}")

    def fetch_head_commit_sha(self) -> str:
        """Return the pull request's head commit; Bitbucket gives its first twelve digits."""
        return str(self.client.send_request("GET", self._request).body["source"]["commit"]["hash"])


def _parse_comment(record: dict[str, Any]) -> PostedComment:
    user, content = record.get("user") or {}, record.get("content") or {}
    url = ((record.get("links") or {}).get("html") or {}).get("href", "")
    return PostedComment(
        int(record["id"]), str(user.get("uuid", "")), str(content.get("raw") or ""), str(url)
    )
