"""The pull or merge request of a comment, from arguments or from the CI system's variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from gpufleet.errors import InputError

Provider = Literal["github", "gitlab"]
APIS = {"github": "https://api.github.com", "gitlab": "https://gitlab.com/api/v4"}
TOKENS = {"github": ("GITHUB_TOKEN", "GH_TOKEN"), "gitlab": ("GITLAB_TOKEN",)}
REPOS = {"github": r"[\w.-]+/[\w.-]+", "gitlab": r"\d+|[\w.-]+(?:/[\w.-]+)+"}


@dataclass(frozen=True)
class CommentTarget:
    """One pull or merge request. Without ``token`` no comment can be written."""

    provider: Provider
    repo: str
    number: int
    api: str
    token: str = field(default="", repr=False)
    author: str = ""


def read_comment_target(
    environment: Mapping[str, str],
    *,
    provider: str | None = None,
    repo: str | None = None,
    number: int | None = None,
    author: str = "",
    needs_number: bool = True,
) -> CommentTarget:
    """Return the request for a comment; number 0 means unknown yet."""
    kind = _detect_provider(environment, provider)
    if kind == "github":
        ci_values = (
            environment.get("GITHUB_REPOSITORY", ""),
            _pull_request_number(environment.get("GITHUB_REF", "")),
        )
        api = environment.get("GITHUB_API_URL", "")
    else:
        project = environment.get("CI_MERGE_REQUEST_PROJECT_ID") or environment.get("CI_PROJECT_ID", "")
        ci_values = project, environment.get("CI_MERGE_REQUEST_IID", "")
        api = environment.get("CI_API_V4_URL", "")
    repository, request_number = repo or ci_values[0], str(number or (ci_values[1] if needs_number else "0"))
    if not re.fullmatch(REPOS[kind], repository):
        raise InputError(
            f"{repository!r} is not a repository", where="--repo", remedy="for example owner/name"
        )
    if needs_number and not re.fullmatch(r"[1-9]\d{0,17}", request_number):
        raise InputError("no pull or merge request given", where="--pr", remedy="give its number")
    token = next((environment[name] for name in TOKENS[kind] if environment.get(name)), "")
    return CommentTarget(
        kind, repository, int(request_number), _check_api_address(api or APIS[kind]), token, author
    )


def _detect_provider(environment: Mapping[str, str], provider: str | None) -> Provider:
    if provider == "github" or (provider is None and environment.get("GITHUB_ACTIONS")):
        return "github"
    if provider == "gitlab" or (provider is None and environment.get("GITLAB_CI")):
        return "gitlab"
    raise InputError("not on GitHub or GitLab CI", where="--provider", remedy="give github or gitlab")


def _pull_request_number(ref: str) -> str:
    """Return the number in refs/pull/12/merge, the ref of a pull request's workflow."""
    match = re.fullmatch(r"refs/pull/(\d+)/(?:merge|head)", ref)
    return match[1] if match else ""


def _check_api_address(api: str) -> str:
    """Return an API address; raise InputError unless it is HTTPS or local, because a token is sent there."""
    parts = urlsplit(api)
    is_local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        raise InputError(f"{api!r} is not an HTTPS address", where="the API address that the CI system gives")
    return api.rstrip("/")
