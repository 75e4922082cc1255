"""Comments on an Azure Repos pull request, by the REST API's pull request threads (version 7.1).

A thread of our own has one comment of ours. It is created closed, because a branch policy may require that all
threads are resolved before the merge.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import quote

from gpufleet.cost.analysis.comment.target import CommentTarget
from gpufleet.cost.analysis.comment.transport import ApiClient
from gpufleet.cost.analysis.comment.upsert import PostedComment
from gpufleet.cost.analysis.reports.comment_text import AZURE_REPOS, CommentMarkup

VERSION = "api-version=7.1"
USER_VERSION = "api-version=7.1-preview.1"  # connectionData has no released version
TEXT_COMMENT = 1  # CommentType: text


@dataclass
class AzureReposCommentThread:
    """The threads of one pull request. A comment's ``id`` is that of its thread."""

    markup: ClassVar[CommentMarkup] = AZURE_REPOS
    client: ApiClient
    target: CommentTarget
    comment_ids: dict[int, int] = field(default_factory=dict)  # the first comment of each thread

    @classmethod
    def from_comment_target(cls, target: CommentTarget) -> AzureReposCommentThread:
        """Return the thread with a client for the target's API: a job's token is a bearer, a user's a password."""
        if target.is_job_token:
            authorization = f"Bearer {target.token}"
        else:
            authorization = f"Basic {b64encode(f':{target.token}'.encode()).decode()}"
        headers = {"Authorization": authorization, "Accept": "application/json"}
        return cls(ApiClient(target.api, headers), target)

    @property
    def _request(self) -> str:
        project, repository = self.target.repo.split("/")
        names = f"/{quote(project, safe='')}/_apis/git/repositories/{quote(repository, safe='')}"
        return f"{names}/pullRequests/{self.target.number}"

    def fetch_token_user_name(self) -> str:
        """Return the id of the token's user."""
        if self.target.author:
            return self.target.author
        body = self.client.send_request("GET", f"/_apis/connectionData?{USER_VERSION}").body
        return str(body["authenticatedUser"]["id"])

    def list_comments(self) -> Iterator[PostedComment]:
        """Yield the first comment of every thread that is not deleted, the oldest first."""
        body = self.client.send_request("GET", f"{self._request}/threads?{VERSION}").body
        for thread in sorted(body.get("value") or [], key=lambda each: int(each["id"])):
            comments = [each for each in thread.get("comments") or [] if not each.get("isDeleted")]
            if comments and not thread.get("isDeleted"):
                yield self._parse_thread(int(thread["id"]), comments[0])

    def create_comment(self, body: str) -> tuple[PostedComment, int]:
        """Create a thread; return its comment and the number of tries."""
        comment = {"parentCommentId": 0, "content": body, "commentType": TEXT_COMMENT}
        path = f"{self._request}/threads?{VERSION}"
        response = self.client.send_request("POST", path, {"comments": [comment], "status": "closed"})
        return self._parse_thread(int(response.body["id"]), response.body["comments"][0]), response.tries

    def update_comment(self, comment: PostedComment, body: str) -> None:
        """Replace a comment's text."""
        self.client.send_request("PATCH", self._comment_path(comment), {"content": body})

    def delete_comment(self, comment: PostedComment) -> None:
        """Remove a comment."""
        self.client.send_request("DELETE", self._comment_path(comment))

    def fetch_head_commit_sha(self) -> str:
        """Return the pull request's head commit."""
        body = self.client.send_request("GET", f"{self._request}?{VERSION}").body
        return str(body["lastMergeSourceCommit"]["commitId"])

    def _comment_path(self, comment: PostedComment) -> str:
        return f"{self._request}/threads/{comment.id}/comments/{self.comment_ids[comment.id]}?{VERSION}"

    def _parse_thread(self, thread_id: int, comment: dict[str, Any]) -> PostedComment:
        self.comment_ids[thread_id] = int(comment["id"])
        author = comment.get("author") or {}
        return PostedComment(thread_id, str(author.get("id", "")), str(comment.get("content") or ""))
