"""Test the comment as GitHub and GitLab render it: escaped names, bounded length."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from comment_reader import read_comment
from gpufleet import cost
from gpufleet.cost.analysis.comment import prepare_comment_body
from gpufleet.cost.analysis.diff import PolicyLimitCheck
from gpufleet.cost.analysis.reports.comment_text import AZURE_REPOS, BITBUCKET, GITHUB
from gpufleet.cost.analysis.reports.markdown import MAX_CHARACTERS, escape_table_cell, stack_comment_marker


@pytest.fixture
def rendered():
    """Render a comment as the code hosts do: CommonMark with tables, HTML let through."""
    return lambda text: MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


@pytest.mark.parametrize(
    "name",
    [
        "@acme/everyone",
        "acme/fleet#12",
        "https://evil.example/x",
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
@pytest.mark.parametrize(
    "markup", [GITHUB, AZURE_REPOS, BITBUCKET], ids=["github", "azure-repos", "bitbucket"]
)
def test_report_displays_every_name_as_text(make_resource, book, rendered, name, markup):
    change = cost.StackChange(stack=f"prod {name}")
    strange = make_resource(name, f"acme:index:{name}")
    limits = (PolicyLimitCheck(f"limit {name}", "x", "", f"under {name}", (f"over {name}",)),)
    before = cost.diff([], [make_resource(name), strange], book=book, change=change)
    difference = replace(before, policy=replace(before.policy, checks=limits), notes=(name,))
    report = cost.render_diff(difference, "markdown", show_skipped=True)
    for text in (report, prepare_comment_body(report, markup)):
        comment = read_comment(text.removesuffix(BITBUCKET.format_marker("x")))
        assert comment.faults == ()
        shown = comment.text.replace("\u200b", "").replace("¦", "|")
        assert shown.count(name) >= 6 or not name.isprintable()  # the bill makes names printable
        assert len(re.findall(r"<tr>\n<td[^>]*>create</td>", rendered(text))) == 2  # machine and disk
        assert rendered(text).count("<td") == 2 * 3 + 2 * 7
    assert prepare_comment_body(report) == report  # written and read by the same rules


def test_comment_ends_with_the_invisible_mark_of_its_stack(make_resource, book, rendered):
    for stack in ("prod", "a b--><script>", ""):
        text = cost.render_diff(
            cost.diff([], [make_resource()], book=book, change=cost.StackChange(stack=stack)), "markdown"
        )
        assert text.endswith(stack_comment_marker(stack))
        assert "gpufleet-cost" not in re.sub("<!--.*?-->", "", rendered(text))
    assert stack_comment_marker("dev") != stack_comment_marker("prod")


def test_cell_is_truncated_before_it_is_escaped():
    assert escape_table_cell("@" * 500) == f"`{'@' * 199}`…"
    assert len(escape_table_cell("x" * 500)) == 200


@pytest.mark.parametrize("name_length", [10, 3000])
def test_long_comment_is_truncated_with_a_note_of_the_omitted_rows(make_resource, book, name_length):
    changed = [make_resource(f"{at}-{'n' * name_length}") for at in range(700)]
    strange = [make_resource(f"s{at}", f"acme:index{at}:Thing") for at in range(700)]
    cost_diff = cost.diff(changed[:300], [*changed, *strange], book=book)
    text = cost.render_diff(cost_diff, "markdown")
    assert len(text) <= MAX_CHARACTERS
    assert "more omitted: a comment has 65,536 characters at most" in text
    assert text.startswith("**The effect of this change on the monthly cost")
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
