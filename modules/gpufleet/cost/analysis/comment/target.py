"""The pull or merge request of a comment, from arguments or from the CI system's variables.

Variables: docs.github.com, "Default environment variables"; docs.gitlab.com, "Predefined CI/CD variables";
learn.microsoft.com, "Use predefined variables"; support.atlassian.com, "Variables and secrets".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast
from urllib.parse import urlsplit

from gpufleet.errors import InputError

Provider = Literal["github", "gitlab", "azure-repos", "bitbucket"]
Variables = Mapping[str, str]
_AZURE_NAME = r'[^/\\:*?"<>|#&%\x00-\x1f]+'
AZURE_SERVICES = "https://dev.azure.com"
ORGANIZATION_PARTS = 3  # organization, project and repository


@dataclass(frozen=True)
class ProviderVariables:
    """Where a provider's CI system says what a job is for, and what its repositories are called."""

    is_current: Callable[[Variables], bool]
    repository: Callable[[Variables], str]
    number: Callable[[Variables], str]
    api: Callable[[Variables], str]
    tokens: tuple[str, ...]
    repository_pattern: str


PROVIDERS: dict[str, ProviderVariables] = {
    "github": ProviderVariables(
        is_current=lambda env: bool(env.get("GITHUB_ACTIONS")),
        repository=lambda env: env.get("GITHUB_REPOSITORY", ""),
        number=lambda env: _pull_request_number(env.get("GITHUB_REF", "")),
        api=lambda env: env.get("GITHUB_API_URL", "") or "https://api.github.com",
        tokens=("GITHUB_TOKEN", "GH_TOKEN"),
        repository_pattern=r"[\w.-]+/[\w.-]+",
    ),
    "gitlab": ProviderVariables(
        is_current=lambda env: bool(env.get("GITLAB_CI")),
        repository=lambda env: env.get("CI_MERGE_REQUEST_PROJECT_ID") or env.get("CI_PROJECT_ID", ""),
        number=lambda env: env.get("CI_MERGE_REQUEST_IID", ""),
        api=lambda env: env.get("CI_API_V4_URL", "") or "https://gitlab.com/api/v4",
        tokens=("GITLAB_TOKEN",),
        repository_pattern=r"\d+|[\w.-]+(?:/[\w.-]+)+",
    ),
    "azure-repos": ProviderVariables(
        is_current=lambda env: env.get("BUILD_REPOSITORY_PROVIDER") == "TfsGit",  # not a repository at GitHub
        repository=lambda env: "/".join(
            part for name in ("SYSTEM_TEAMPROJECT", "BUILD_REPOSITORY_ID") if (part := env.get(name, ""))
        ),
        number=lambda env: env.get("SYSTEM_PULLREQUEST_PULLREQUESTID", ""),
        api=lambda env: env.get("SYSTEM_COLLECTIONURI", ""),
        tokens=("SYSTEM_ACCESSTOKEN", "AZURE_DEVOPS_EXT_PAT"),
        repository_pattern=rf"(?:{_AZURE_NAME}/){{1,2}}{_AZURE_NAME}",
    ),
    "bitbucket": ProviderVariables(
        is_current=lambda env: bool(env.get("BITBUCKET_BUILD_NUMBER")),
        repository=lambda env: env.get("BITBUCKET_REPO_FULL_NAME", ""),
        number=lambda env: env.get("BITBUCKET_PR_ID", ""),
        api=lambda env: env.get("BITBUCKET_API_URL", "") or "https://api.bitbucket.org/2.0",
        tokens=("BITBUCKET_TOKEN",),
        repository_pattern=r"[\w.-]+/[\w.-]+",
    ),
}
JOB_TOKENS = ("SYSTEM_ACCESSTOKEN",)
DOTS = re.compile(r"\.\.?")


@dataclass(frozen=True)
class CommentTarget:
    """One pull or merge request. Without ``token`` no comment can be written."""

    provider: Provider
    repo: str
    number: int
    api: str
    token: str = field(default="", repr=False)
    author: str = ""
    is_job_token: bool = False  # made by the CI system for this job


def read_comment_target(
    environment: Variables,
    *,
    provider: str | None = None,
    repo: str | None = None,
    number: int | None = None,
    author: str = "",
    needs_number: bool = True,
) -> CommentTarget:
    """Return the request for a comment; number 0 means unknown yet."""
    kind = _detect_provider(environment, provider)
    variables = PROVIDERS[kind]
    repository = repo or variables.repository(environment)
    request_number = str(number or (variables.number(environment) if needs_number else "0"))
    if not re.fullmatch(variables.repository_pattern, repository) or any(
        DOTS.fullmatch(part) for part in repository.split("/")
    ):
        raise InputError(
            f"{repository!r} is not a repository", where="--repo", remedy="for example owner/name"
        )
    if needs_number and not re.fullmatch(r"[1-9]\d{0,17}", request_number):
        raise InputError("no pull or merge request given", where="--pr", remedy="give its number")
    name = next((name for name in variables.tokens if environment.get(name)), "")
    api = variables.api(environment)
    if kind == "azure-repos":
        api, repository = _split_azure_repository(api, repository)
    return CommentTarget(
        kind,
        repository,
        int(request_number),
        _check_api_address(api),
        environment.get(name, ""),
        author,
        name in JOB_TOKENS,
    )


def _detect_provider(environment: Variables, provider: str | None) -> Provider:
    found = provider or next((name for name, each in PROVIDERS.items() if each.is_current(environment)), None)
    if found not in PROVIDERS:
        raise InputError(
            "not on the CI system of a known provider",
            where="--provider",
            remedy=f"give one of {', '.join(PROVIDERS)}",
        )
    return cast("Provider", found)


def _split_azure_repository(api: str, repository: str) -> tuple[str, str]:
    """Return the address of the organization, and PROJECT/REPOSITORY."""
    parts = repository.split("/")
    if len(parts) == ORGANIZATION_PARTS:
        return f"{AZURE_SERVICES}/{parts[0]}", "/".join(parts[1:])
    if not api:
        raise InputError(
            f"{repository!r} has no organization",
            where="--repo",
            remedy="give ORGANIZATION/PROJECT/REPOSITORY, or set SYSTEM_COLLECTIONURI",
        )
    return api, repository


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
