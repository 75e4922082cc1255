"""Comments on a GitHub pull request, by the REST API's issue comments (version 2022-11-28)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from gpufleet.cost.analysis.comment.target import CommentTarget
from gpufleet.cost.analysis.comment.transport import ApiClient, PermissionDenied
from gpufleet.cost.analysis.comment.upsert import PAGES, PER_PAGE, PostedComment
from gpufleet.cost.analysis.reports.comment_text import GITHUB, CommentMarkup
from gpufleet.errors import InputError

ACTIONS = "github-actions[bot]"  # the author of a workflow's token, which may not read /user


@dataclass
class GitHubCommentThread:
    """The comments of one pull request."""

    markup: ClassVar[CommentMarkup] = GITHUB
    client: ApiClient
    target: CommentTarget

    @classmethod
    def from_comment_target(cls, target: CommentTarget) -> GitHubCommentThread:
        """Return the thread with a client for the target's API."""
        headers = {
            "Authorization": f"Bearer {target.token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        return cls(ApiClient(target.api, headers), target)

    def fetch_token_user_name(self) -> str:
        """Return the token's user name."""
        if self.target.author:
            return self.target.author
        try:
            return str(self.client.send_request("GET", "/user").body["login"])
        except PermissionDenied:
            return ACTIONS

    def list_comments(self) -> Iterator[PostedComment]:
        """Yield every comment, the oldest first."""
        for page in range(1, PAGES + 1):
            path = f"/repos/{self.target.repo}/issues/{self.target.number}/comments?per_page={PER_PAGE}&page={page}"
            response = self.client.send_request("GET", path)
            for record in response.body or []:
                yield _parse_comment(record)
            if 'rel="next"' not in response.headers.get("link", ""):
                return

    def create_comment(self, body: str) -> tuple[PostedComment, int]:
        """Create a comment; return it and the number of tries."""
        path = f"/repos/{self.target.repo}/issues/{self.target.number}/comments"
        response = self.client.send_request("POST", path, {"body": body})
        return _parse_comment(response.body), response.tries

    def update_comment(self, comment: PostedComment, body: str) -> None:
        """Replace a comment's text."""
        self.client.send_request(
            "PATCH", f"/repos/{self.target.repo}/issues/comments/{comment.id}", {"body": body}
        )

    def delete_comment(self, comment: PostedComment) -> None:
        """Remove a comment."""
        self.client.send_request("DELETE", f"/repos/{self.target.repo}/issues/comments/{comment.id}")

    def find_pull_request_number(self, head: str, head_sha: str) -> int:
        """Return the open pull request from ``head`` (OWNER:BRANCH) that is at a commit.

        Raise InputError unless there is exactly one: the number never comes from the request's artifacts.
        """
        path = f"/repos/{self.target.repo}/pulls?state=open&per_page={PER_PAGE}&head={quote(head, safe='')}"
        requests = self.client.send_request("GET", path).body or []
        numbers = [int(each["number"]) for each in requests if each["head"]["sha"] == head_sha]
        if len(numbers) != 1:
            problem = f"{len(numbers)} open pull requests are at {head_sha[:12]}"
            raise InputError(
                problem, where="--head", remedy="check that the branch has no newer commit, or give --pr"
            )
        return numbers[0]

    def fetch_head_commit_sha(self) -> str:
        """Return the pull request's head commit."""
        document = self.client.send_request(
            "GET", f"/repos/{self.target.repo}/pulls/{self.target.number}"
        ).body
        return str(document["head"]["sha"])


def _parse_comment(record: dict[str, Any]) -> PostedComment:
    user = record.get("user") or {}
    return PostedComment(
        int(record["id"]),
        str(user.get("login", "")),
        str(record.get("body") or ""),
        str(record.get("html_url", "")),
    )
