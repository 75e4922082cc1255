"""Where a comment goes: read from arguments first, then from what the CI system says about itself."""

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
class Place:
    """One pull or merge request. ``token`` is empty where there is none: nothing can be written then."""

    provider: Provider
    repo: str
    number: int
    api: str
    token: str = field(default="", repr=False)
    author: str = ""


def read_place(
    environment: Mapping[str, str],
    *,
    provider: str | None = None,
    repo: str | None = None,
    number: int | None = None,
    author: str = "",
    needs_number: bool = True,
) -> Place:
    """Return the request that a comment is for; its number is 0 where it is not known yet."""
    kind = _provider(environment, provider)
    if kind == "github":
        told = environment.get("GITHUB_REPOSITORY", ""), _pull(environment.get("GITHUB_REF", ""))
        api = environment.get("GITHUB_API_URL", "")
    else:
        project = environment.get("CI_MERGE_REQUEST_PROJECT_ID") or environment.get("CI_PROJECT_ID", "")
        told = project, environment.get("CI_MERGE_REQUEST_IID", "")
        api = environment.get("CI_API_V4_URL", "")
    where, which = repo or told[0], str(number or (told[1] if needs_number else "0"))
    if not re.fullmatch(REPOS[kind], where):
        raise InputError(f"{where!r} is not a repository", where="--repo", remedy="for example owner/name")
    if needs_number and not re.fullmatch(r"[1-9]\d{0,17}", which):
        raise InputError("no pull or merge request given", where="--pr", remedy="give its number")
    token = next((environment[name] for name in TOKENS[kind] if environment.get(name)), "")
    return Place(kind, where, int(which), _checked(api or APIS[kind]), token, author)


def _provider(environment: Mapping[str, str], given: str | None) -> Provider:
    if given == "github" or (given is None and environment.get("GITHUB_ACTIONS")):
        return "github"
    if given == "gitlab" or (given is None and environment.get("GITLAB_CI")):
        return "gitlab"
    raise InputError("not on GitHub or GitLab CI", where="--provider", remedy="give github or gitlab")


def _pull(ref: str) -> str:
    """Return the number in refs/pull/12/merge, which is what a workflow of a pull request runs on."""
    found = re.fullmatch(r"refs/pull/(\d+)/(?:merge|head)", ref)
    return found[1] if found else ""


def _checked(api: str) -> str:
    """Take HTTPS only, and plain HTTP to this machine: a token goes over it."""
    parts = urlsplit(api)
    local = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if parts.scheme != "https" and not (parts.scheme == "http" and local):
        raise InputError(f"{api!r} is not an HTTPS address", where="the CI system's API address")
    return api.rstrip("/")
