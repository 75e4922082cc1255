"""Read a comment as code hosts do: CommonMark with tables, strikethrough, bare links and HTML, then their own search.

What is found is written here from the hosts' documentation, independently of the code that renders.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from markdown_it import MarkdownIt

PARSER = MarkdownIt("gfm-like", {"html": True, "linkify": True})
OWN_HTML = re.compile(
    r"(?:<details>|</details>|<summary>(?P<title>[^\n]*)</summary>|<!-- gpufleet-cost:[\w.%~-]* -->|\s)*"
)
LINE_ENDS = re.compile(r"[\n\r\x0b\x0c\x85\u2028\u2029]")
FORBIDDEN_TOKENS = {"link_open", "image", "html_inline", "s_open", "em_open", "fence", "code_block"}
FORBIDDEN_TOKENS |= {"heading_open", "blockquote_open", "hr", "ordered_list_open", "hardbreak"}
# What a host makes of text outside of code.
REFERENCES = {
    "mention": r"@[\w{<\"]",
    "issue, request, milestone, snippet, label, epic, work item": r"[#!%&~*^][\w\"{]",
    "issue of GitHub": r"(?i)\bgh-\d",
    "issue of Jira": r"\b[A-Z][A-Z0-9]+-\d",
    "commit": r"(?i)\b[0-9a-f]{7,40}\b",
    "address": r"(?i)://|\bwww\.|\bmailto:|\w@\w|\w\.[a-z]{2}",
    "emoji": r":[\w+-]+:",
    "link, markup": r"[\[\]<>{}\\_~^]",  # a backtick and a pipe are text here: the parser has read them
    "quick action": r"^\s*/",
    "word of a table of contents, front matter, fence": r"^(?:---|\+\+\+|%%%|:::|>>>|===)",
}


@dataclass(frozen=True)
class ReadComment:
    """What a host displays: all text, the text outside of code, and what must not be there."""

    text: str
    text_outside_code: str
    faults: tuple[str, ...]


def read_comment(markdown: str) -> ReadComment:
    """Return what a host makes of a comment."""
    faults, shown, outside = [], [], []
    for token in PARSER.parse(markdown):
        if token.type == "html_block":
            match = OWN_HTML.fullmatch(token.content)
            if match is None:
                faults.append(f"HTML {token.content!r}")
            elif match["title"]:
                title = read_title(match["title"])
                shown.append(title.text)
                outside.append(title.text_outside_code)
                faults += title.faults
        elif token.type == "inline":
            kinds = [child.type for child in token.children]
            faults += [f"{kind} in {token.content!r}" for kind in kinds if kind in FORBIDDEN_TOKENS]
            shown.append("".join(child.content for child in token.children))
            outside.append(
                "".join("\0" if child.type == "code_inline" else child.content for child in token.children)
            )
        elif token.type in FORBIDDEN_TOKENS:
            faults.append(f"{token.type} {token.content!r}")
    faults += find_references("\n".join(outside))
    faults += [
        f"quick action {line!r}"
        for line in re.split(r"[\n\r\x0b\x0c\x85\u2028\u2029]", markdown)
        if line.strip()[:1] == "/"
    ]
    return ReadComment("\n".join(shown), "\n".join(outside), tuple(faults))


def read_title(title: str) -> ReadComment:
    """Return what a host makes of a folded part's title, which is HTML and no Markdown."""
    tags = re.findall(r"<[^>]*>?", title)
    faults = [f"HTML {tag!r}" for tag in tags if tag not in ("<code>", "</code>")]
    outside = html.unescape(re.sub(r"<code>.*?</code>", "\0", title))
    return ReadComment(
        html.unescape(re.sub(r"</?code>", "", title)), outside, (*faults, *find_references(outside))
    )


def find_references(text: str) -> list[str]:
    """Return what a host would link or replace in text outside of code."""
    return [
        f"{name}: {match[0]!r} in {line!r}"
        for line in text.split("\n")
        for name, pattern in REFERENCES.items()
        if (match := re.search(pattern, line))
    ]
