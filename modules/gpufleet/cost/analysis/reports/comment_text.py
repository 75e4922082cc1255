r"""Text from outside in a comment: shown as text, whatever is in it, on GitHub, GitLab, Azure Repos and Bitbucket.

Code hosts look for more than Markdown: mentions, references (#1, !1, GH-1, commits), bare addresses, emoji, formulas,
quick actions. Some look for it after Markdown is rendered, so that neither ``\@`` nor ``&commat;`` helps. None of them
looks into code. So a word of letters and digits stays as it is, and every other word becomes a code span. The code
span has one backtick on each side, because a backtick or a pipe in the word is written outside of it.

- GitHub (html-pipeline) and GitLab (Banzai's reference filters) skip ``code`` and ``pre``.
- GitLab reads a line that begins with "/" as a quick action. Here a line begins with a letter, a digit, a backtick, an
  opening bracket or quote, a sign or a backslash. ``\$`` keeps GitLab from a snippet's reference ($1) and a formula.
- Azure Repos and Bitbucket do not document whether they skip code: there a zero-width space follows @, # and ! too.
- Bitbucket displays neither HTML nor entities, and its tables do not know an escaped pipe.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from gpufleet.boundary import make_printable

MAX_CELL_CHARACTERS, MAX_SENTENCE_CHARACTERS = 200, 1000
ZERO_WIDTH_SPACE = "\u200b"


@dataclass(frozen=True)
class CommentMarkup:
    """What a code host displays of a comment."""

    has_html: bool = True  # <details>, entities and an invisible HTML comment
    skips_code: bool = True  # searches for mentions and references only outside of code
    dollar: str = r"\$"

    def format_marker(self, name: str) -> str:
        """Return the invisible line that identifies a comment; ``name`` is percent-encoded."""
        return f"<!-- gpufleet-cost:{name} -->" if self.has_html else f"[//]: # (gpufleet-cost:{name})"


GITHUB = GITLAB = CommentMarkup()
AZURE_REPOS = CommentMarkup(skips_code=False)
BITBUCKET = CommentMarkup(has_html=False, skips_code=False, dollar="$")

_WORD = re.compile(r"""(?P<lead>[("']*)(?P<core>.*?)(?P<trail>[)"',.;:?!…]*)""")
_LETTERS_AND_DIGITS = r"[^\W_]+(?:'[^\W\d_]+)?(?:-[^\W\d_][^\W_]*)*"
_NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?%?|\d{4}-\d\d-\d\d"
_PLAIN = re.compile(rf"{_LETTERS_AND_DIGITS}|{_NUMBER}")
_AMOUNT = re.compile(r"([+-]?)\$(\d[\d,]*(?:\.\d+)?)")
_COMMIT = re.compile(
    r"(?<![^\W_])[0-9a-f]{7,}(?![^\W_])", re.IGNORECASE
)  # GitHub and GitLab link 7 to 40 digits
_LIST_NUMBER = re.compile(r"(\d+)([.)])")
_REFERENCE_SIGN = re.compile(r"([@#!])")


def render_text(text: str, markup: CommentMarkup = GITHUB, max_length: int | None = None) -> str:
    """Return Markdown that displays a text, as one line: nothing in it is markup, and nothing becomes a link.

    Runs of spaces are one space. A text over ``max_length`` characters is cut.
    """
    words = [_render_word(word, markup) for word in _split_words(text, max_length)]
    if words:
        words[0] = _LIST_NUMBER.sub(r"\1\\\2", words[0], count=1) if words[0][:1].isdigit() else words[0]
    return " ".join(words)


def render_html_text(text: str, markup: CommentMarkup = GITHUB, max_length: int | None = None) -> str:
    """Return HTML that displays a text, for a place where Markdown is not read: the title of a folded part."""
    words = (_render_html_word(word, markup) for word in _split_words(text, max_length))
    return " ".join(words)


def parse_text(markdown: str) -> str:
    """Return the text that Markdown of ``render_text`` displays; of any other Markdown a text, not always the same."""
    return _SOURCE.sub(_parse_match, markdown)


def parse_html_text(source: str) -> str:
    """Return the text that HTML of ``render_html_text`` displays."""
    return html.unescape(re.sub(r"</?code>", "", source))


_SOURCE = re.compile(
    r"""`(?P<code>[^`]*)`|\\(?P<sign>[!-/:-@\[-`{-~])|(?P<space>&\#8203;)|(?P<entity>&\#?\w{1,31};)"""
)


def _parse_match(match: re.Match[str]) -> str:
    if match["entity"]:
        return html.unescape(match["entity"])
    return match["code"] or match["sign"] or ""


def _split_words(text: str, max_length: int | None) -> list[str]:
    printable = make_printable(text, None)
    if max_length is not None and len(printable) > max_length:
        printable = f"{printable[: max_length - 1]}…"
    return printable.split()


def _render_word(word: str, markup: CommentMarkup) -> str:
    if word == "-":
        return r"\-"  # a dash in a table; at the beginning of a line a list
    if _is_plain(word):
        return word.replace("$", markup.dollar)
    lead, core, trail = _split_punctuation(word)
    parts = (_render_code(part, markup) for part in re.split(r"([`|])", core) if part)
    return f"{lead}{''.join(parts)}{trail}"


def _render_code(part: str, markup: CommentMarkup) -> str:
    if part == "`":
        return r"\`"
    if part == "|":
        return "&#124;" if markup.has_html else "¦"
    return f"`{_break_references(part, markup)}`"


def _render_html_word(word: str, markup: CommentMarkup) -> str:
    if _is_plain(word) and "$" not in word:
        return html.escape(word, quote=False)
    lead, core, trail = _split_punctuation(word)
    return f"{lead}<code>{html.escape(_break_references(core, markup), quote=False)}</code>{trail}"


def _break_references(word: str, markup: CommentMarkup) -> str:
    return word if markup.skips_code else _REFERENCE_SIGN.sub(rf"\1{ZERO_WIDTH_SPACE}", word)


def _is_plain(word: str) -> bool:
    """Return True if no code host takes a word for more than a word: letters and digits, a number, dollars."""
    core = _split_punctuation(word)[1]
    return bool(_AMOUNT.fullmatch(core) or (_PLAIN.fullmatch(core) and not _COMMIT.search(core)))


def _split_punctuation(word: str) -> tuple[str, str, str]:
    """Return the punctuation of a sentence around a word, and the word; a word of punctuation alone is not split."""
    match = _WORD.fullmatch(word)
    return (match["lead"], match["core"], match["trail"]) if match and match["core"] else ("", word, "")
