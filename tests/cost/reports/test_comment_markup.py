"""Test that outside text of a comment is text on every code host: by a CommonMark parser, and as hosts search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from comment_reader import read_comment, read_title
from gpufleet.boundary import make_printable
from gpufleet.cost.analysis.comment.document import rewrite_comment
from gpufleet.cost.analysis.reports import comment_text
from gpufleet.cost.analysis.reports.comment_text import (
    parse_html_text,
    parse_text,
    render_html_text,
    render_text,
)

MARKUPS = {
    "github": comment_text.GITHUB,
    "gitlab": comment_text.GITLAB,
    "azure-repos": comment_text.AZURE_REPOS,
    "bitbucket": comment_text.BITBUCKET,
}
PLACES = {
    "paragraph": "{}",
    "bold": "**{}**",
    "bullet": "- {}",
    "cell": "| {} | b |\n|:-|-:|\n| {} | - |",
}
HOSTILE = json.loads(Path(__file__).with_name("hostile_text.json").read_text(encoding="utf-8"))
FRAGMENTS = sorted(
    {*HOSTILE, *"@#!$%&~^*_`[]()<>{}|\\/:.,;-+='\" \n\r\t", "a", "B", "7", "0a1b2c3", "www", "http"}
)
hostile_text = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=4)), max_size=12).map("".join)
hosts = pytest.mark.parametrize("host", MARKUPS)


def shown_text(text):
    """Return the text that a reader must see."""
    return " ".join(make_printable(text, None).split())


def check_text(text, host):
    markup = MARKUPS[host]
    for name, place in PLACES.items():
        rendered = render_text(text, markup)
        if not rendered:
            continue  # an empty paragraph or bullet is nothing
        comment = read_comment(place.replace("{}", rendered))
        assert comment.faults == (), (name, rendered)
        lines = comment.text.replace("\u200b", "").split("\n")
        expected = shown_text(text)
        assert lines[0] == (expected if markup.has_html else expected.replace("|", "¦")), (name, rendered)
        assert len(lines) == (4 if name == "cell" else 1), (name, rendered)
        assert not any(separator in rendered for separator in "\n\r\x85\u2028\u2029")
    title = read_title(render_html_text(text, markup))
    assert title.faults == ()
    assert title.text.replace("\u200b", "") == shown_text(text)


@hosts
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_displayed_as_it_is_and_does_nothing(text, host):
    check_text(text, host)
    check_text(f"a {text} b", host)


@hosts
@settings(max_examples=100, deadline=None)
@given(hostile_text)
def test_any_text_is_displayed_as_it_is_and_does_nothing(host, text):
    check_text(text, host)


@settings(max_examples=100, deadline=None)
@given(hostile_text)
def test_rendered_text_is_parsed_back(text):
    assert parse_text(render_text(text)) == shown_text(text)
    assert parse_html_text(render_html_text(text)) == shown_text(text)


LINES = ["<details>", "</details>", "<summary>x</summary>", "|:-|-:|", "| a | b |", "- a", "**a**", "", "a"]
hostile_line = st.one_of(
    st.sampled_from(LINES),
    st.builds(
        str.replace, st.sampled_from([*PLACES.values(), "<summary>{}</summary>"]), st.just("{}"), hostile_text
    ),
    hostile_text,
)


@hosts
@settings(max_examples=100, deadline=None)
@given(st.lists(hostile_line, max_size=12).map("\n".join))
@example("<details>\n<img src=x onerror=alert(1)>\n</details>")
@example("<details>\n<summary>x\n\n</summary><b>y")
@example("a\n===\nb\n---")
@example("`a\n/approve\nb`")
@example("```\n/approve\n```")
@example("[a]: https://evil.example\n\n[a] and [b][a]")
def test_file_of_any_content_gives_a_comment_of_text(host, file):
    body = rewrite_comment(file, MARKUPS[host])
    comment = read_comment(body)
    assert comment.faults == ()
    assert body.split("\n").count("<details>") == body.split("\n").count("</details>")
    assert MARKUPS[host].has_html or not set("<&").intersection(comment.text_outside_code)


@hosts
def test_bitbucket_gets_neither_html_nor_entities_nor_an_escaped_dollar(host):
    body = rewrite_comment(
        "<details>\n<summary>a & b</summary>\n\n| a | $5.00 |\n\nx|y <b>\n\n</details>", MARKUPS[host]
    )
    if host == "bitbucket":
        assert body == "**a `&` b**\n\n| a | $5.00 |\n\n`x`¦`y` `<b>`"
    else:
        assert "<summary>a <code>&amp;</code> b</summary>" in body
        assert r"| a | \$5.00 |" in body


@pytest.mark.parametrize("host", ["azure-repos", "bitbucket"])
def test_reference_in_code_is_broken_where_the_host_may_search_code(host):
    rendered = render_text("@<guid> #12 !7", MARKUPS[host])
    assert "@<" not in rendered
    assert "#1" not in rendered
    assert "!7" not in rendered


def test_plain_sentence_stays_readable():
    sentence = "This change raises the monthly cost of prod by $26.50 (+5%) to $1,234.00, within its budget."
    assert render_text(sentence) == sentence.replace("$", r"\$")
