"""Find our comment, and make it say what is so now."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from gpufleet.boundary import printable_block
from gpufleet.cost.analysis.comment.transport import Refused
from gpufleet.cost.analysis.reports.markdown import MOST_CHARACTERS, UNSEEN, defuse
from gpufleet.errors import InputError

PER_PAGE, PAGES = 100, 100
LONGEST_REF = 255
# What our comments are made of. Whatever else looks like HTML, an image or a link comes from somebody's program.
HTML = re.compile(r"<(?!/?(?:details|summary)>)")
LINK = re.compile(r"(?<=!)(?=\[)|(?<=\])(?=[(\[])")
MARK = re.compile(r"<!-- gpufleet-cost:[\w.%~-]* -->")
CUT = "This comment was longer than it may be; the rest is left out."


@dataclass(frozen=True)
class Comment:
    """One comment as the provider keeps it."""

    id: int
    author: str
    body: str
    url: str = ""


@dataclass(frozen=True)
class Posted:
    """What was done."""

    done: Literal["created", "updated", "unchanged"]
    url: str = ""
    removed: int = 0


class Thread(Protocol):
    """The comments of one request, whoever keeps them."""

    def author(self) -> str: ...
    def comments(self) -> Iterator[Comment]: ...
    def create(self, body: str) -> tuple[Comment, int]: ...
    def update(self, comment: Comment, body: str) -> None: ...
    def delete(self, comment: Comment) -> None: ...
    def head(self) -> str: ...


def post(thread: Thread, text: str, expected_head: str = "") -> Posted:
    """Write the comment or bring ours up to date, and remove further ones with the same mark.

    ``expected_head`` is the commit that the text is about: a request that is elsewhere is left alone.
    """
    if expected_head and thread.head() != expected_head:
        raise InputError(
            f"the request is not at {expected_head[:12]}",
            where="--head-sha",
            remedy="it moved on, or this text belongs to another",
        )
    body = fit(text)
    ours = _ours(thread, _mark(body))
    if ours:
        return _refresh(thread, ours, body)
    made, tries = thread.create(body)
    extra = _ours(thread, _mark(body))[1:] if tries > 1 else []  # a try whose answer was lost may have worked
    return Posted("created", made.url, _remove(thread, extra))


def fit(text: str) -> str:
    """Return the text without mentions, links and foreign HTML, no longer than it may be, its mark last."""
    mark = _mark(text)
    plain = LINK.sub(UNSEEN, HTML.sub("&lt;", MARK.sub("", text)))
    body = defuse(printable_block(plain)).rstrip()
    whole = f"{body}\n\n{mark}"
    if len(whole) <= MOST_CHARACTERS:
        return whole
    closing = f"\n\n</details>\n\n{CUT}\n\n{mark}"
    kept = body[: MOST_CHARACTERS - len(closing)].rpartition("\n")[0]
    if kept.count("<details>") <= kept.count("</details>"):
        closing = closing.replace("\n\n</details>", "", 1)
    return kept + closing


def _mark(text: str) -> str:
    marks = MARK.findall(text)
    if not marks:
        raise InputError(
            "no gpufleet mark in it",
            where="--file",
            remedy="give what `gpufleet cost diff --format markdown` wrote",
        )
    return str(marks[-1])


def _ours(thread: Thread, mark: str) -> list[Comment]:
    """Return our comments with this mark: somebody else's that quotes it is neither changed nor removed."""
    author = thread.author()
    return [each for each in thread.comments() if each.author == author and each.body.rstrip().endswith(mark)]


def _refresh(thread: Thread, ours: list[Comment], body: str) -> Posted:
    first, *extra = ours
    same = first.body.replace("\r\n", "\n").rstrip() == body
    if not same:
        thread.update(first, body)
    return Posted("unchanged" if same else "updated", first.url, _remove(thread, extra))


def _remove(thread: Thread, extra: list[Comment]) -> int:
    """Remove what a race left; where that is not allowed the comment is right all the same."""
    gone = 0
    for each in extra:
        try:
            thread.delete(each)
        except (Refused, InputError):
            continue  # somebody else was quicker, or we may not
        gone += 1
    return gone
