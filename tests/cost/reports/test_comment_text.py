"""Test the comment as GitHub and GitLab render it: escaped names, bounded length."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt

from gpufleet import cost
from gpufleet.cost.analysis.reports.markdown import MAX_CHARACTERS, escape_table_cell, stack_comment_marker


@pytest.fixture
def rendered():
    """Render a comment as the code hosts do: CommonMark with tables, HTML let through."""
    return lambda text: MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


@pytest.mark.parametrize(
    "name",
    [
        "@acme/everyone",
        "#1",
        "acme/fleet#12",
        "https://evil.example/x",
        "www.evil.example",
        "[click](javascript:alert(1))",
        "![x](http://evil.example/pixel.png)",
        "<img src=x onerror=alert(1)>",
        "<!-- gpufleet-cost:prod -->",
        "</details>",
        "a|b|c",
        "`code` *bold* ~~gone~~ $x$",
        "line\nbreak\r\n/approve",
        "\u202eevil",
    ],
)
def test_resource_name_is_never_rendered_as_markup(make_resource, book, rendered, name):
    text = cost.render_diff(
        cost.diff([], [make_resource(name)], book=book, change=cost.StackChange(stack="prod")), "markdown"
    )
    html = rendered(text).replace("<strong>Notes</strong>", "")  # our own title
    assert not re.search(
        r"[@#](?=[\w-])", re.sub(r"&#\w+;", "", html)
    )  # a letter after it would make a mention
    assert not re.search(r"<(?:img|a|script|code|em|strong|s)\b", html.split("</strong>", 1)[1])
    assert not re.search(r"\b(?:https?|ftp)://|\bwww\.", html)
    assert (
        len(re.findall(r"<tr>\n<td[^>]*>create</td>", html)) == 2
    )  # machine and disk, each one row of seven cells
    assert html.count("<td") == 2 * 3 + 2 * 7
    assert text.count(stack_comment_marker("prod")) == 1
    assert not any(line.startswith("/") for line in text.splitlines())


def test_comment_ends_with_the_invisible_mark_of_its_stack(make_resource, book, rendered):
    for stack in ("prod", "a b--><script>", ""):
        text = cost.render_diff(
            cost.diff([], [make_resource()], book=book, change=cost.StackChange(stack=stack)), "markdown"
        )
        assert text.endswith(stack_comment_marker(stack))
        assert "gpufleet-cost" not in re.sub("<!--.*?-->", "", rendered(text))
    assert stack_comment_marker("dev") != stack_comment_marker("prod")


def test_cell_is_truncated_before_it_is_escaped():
    assert escape_table_cell("@" * 500).count("@") == 199
    assert len(escape_table_cell("x" * 500)) == 200


@pytest.mark.parametrize("name_length", [10, 3000])
def test_long_comment_is_truncated_with_a_note_of_the_omitted_rows(make_resource, book, name_length):
    changed = [make_resource(f"{at}-{'n' * name_length}") for at in range(700)]
    strange = [make_resource(f"s{at}", f"acme:index{at}:Thing") for at in range(700)]
    cost_diff = cost.diff(changed[:300], [*changed, *strange], book=book)
    text = cost.render_diff(cost_diff, "markdown")
    assert len(text) <= MAX_CHARACTERS
    assert "more omitted: a comment has 65,536 characters at most" in text
    assert text.startswith("**This change raises the monthly cost")
    assert text.endswith(stack_comment_marker(""))
    assert text.count("<details>") == text.count("</details>")


def test_least_important_rows_are_omitted_first(make_resource, book):
    unchanged = [make_resource(f"same-{at}") for at in range(900)]
    text = cost.render_diff(cost.diff(unchanged, [*unchanged, make_resource("new")], book=book), "markdown")
    assert "| create | new machine |" in text
    assert "1800 unchanged lines" in text
    assert "more omitted" in text.split("1800 unchanged lines")[1]


def test_most_expensive_change_comes_first(make_resource, book):
    small = make_resource("a", inputs={"instanceType": "g5.2xlarge", "region": "us-east-1"})
    rows = cost.render_diff(cost.diff([], [small, make_resource("z")], book=book), "markdown").split(
        "| create | "
    )
    assert rows[1].startswith("z machine")
