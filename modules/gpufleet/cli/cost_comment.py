"""``gpufleet cost comment``: one comment on a pull or merge request that updates itself."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

import click

from gpufleet.boundary import DocumentLimits, read_text, read_text_stream, refuse_symlinks
from gpufleet.cli import output
from gpufleet.errors import InputError

COMMENT = DocumentLimits(bytes=1 << 20)


@click.command("comment")
@click.option(
    "--provider",
    type=click.Choice(["github", "gitlab", "azure-repos", "bitbucket"]),
    help="Default: the CI system that runs this command.",
)
@click.option(
    "--repo",
    help="OWNER/NAME; GitLab: project path or number; Azure: ORGANIZATION/PROJECT/NAME; default: the CI system's.",
)
@click.option("--pr", "number", type=click.IntRange(min=1), help="The pull or merge request's number.")
@click.option("--file", default="-", show_default=True, help="The output of `cost diff --format markdown`.")
@click.option("--author", default="", help="Author of the existing comment; default: the owner of the token.")
@click.option("--head-sha", default="", help="Write only if the pull request is at this commit.")
@click.option(
    "--head", default="", help="OWNER:BRANCH on GitHub: find the pull request by it and --head-sha."
)
@output.json_option
def post_cost_comment(
    *,
    as_json: bool,
    provider: str | None,
    repo: str | None,
    number: int | None,
    file: str,
    author: str,
    head_sha: str,
    head: str,
) -> None:
    """Create or update the cost comment of a pull request."""
    from gpufleet.cost.analysis import comment as comments

    text = _read(file)
    is_unknown = bool(head) and number is None
    target = comments.read_comment_target(
        os.environ,
        provider=provider,
        repo=repo,
        number=number,
        author=author,
        needs_number=not is_unknown,
    )
    if not target.token:
        _show(comments.prepare_comment_body(text), "no token that may write comments", as_json)
        return
    thread = comments.open_comment_thread(target)
    if is_unknown:
        if not isinstance(thread, comments.GitHubCommentThread) or not head_sha:
            raise InputError("needs GitHub and --head-sha", where="--head", remedy="or give --pr")
        thread.target = replace(target, number=thread.find_pull_request_number(head, head_sha))
    try:
        posted = comments.upsert_comment(thread, text, head_sha)
    except comments.PermissionDenied as refusal:
        reason = f"the token may not write comments ({refusal})"
        _show(comments.prepare_comment_body(text), reason, as_json)
        return
    more = f", {posted.removed} more removed" if posted.removed else ""
    line = " ".join(part for part in (f"comment {posted.action}{more}", posted.url) if part)
    output.print_data(as_json, asdict(posted), [line])


def _read(file: str) -> str:
    if file == "-":
        return read_text_stream(sys.stdin.buffer, "standard input", COMMENT)
    # What is posted is public: a pull request may have put a symlink to a secret here.
    refuse_symlinks(Path(file))
    return read_text(Path(file), COMMENT, follow_symlinks=False)


def _show(text: str, reason: str, as_json: bool) -> None:
    """Write the comment to the run's summary: a fork's run succeeds all the same."""
    if as_json:
        output.print_json({"action": "none", "reason": reason, "body": text})
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as page:
            page.write(f"{text}\n")
        output.print_lines(f"{reason}: the comment is in the job's summary", err=True)
    elif not as_json:
        output.print_text_block(text)
        output.print_lines(f"{reason}: the comment is above", err=True)
