"""Test the HTML page: self-contained, with a plot for each section that has data."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.analysis.reports import plot


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.fetched, self.headings, self.plots, self.inside = [], [], 0, ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.fetched += [value for name, value in attrs if name in ("src", "href", "action", "data")]
        self.fetched += [tag] if tag in ("script", "link", "iframe", "object") else []
        self.plots += ("class", "bars") in attrs
        self.inside = tag

    def handle_data(self, data):
        if self.inside == "h2" and data.strip():
            self.headings.append(data.strip())
        self.inside = ""


@pytest.fixture
def page(make_resource, book):
    return Page(
        cost.render_diff(
            cost.diff([make_resource("a")], [make_resource("a"), make_resource("b")], book=book), "html"
        )
    )


def test_page_has_a_plot_for_each_section(page):
    assert page.plots == 4  # by pool, by purchase, by cloud, what if
    expected = ["By pool", "By purchase", "By cloud", "What changes", "Notes", "Other purchase options"]
    assert page.headings[:6] == expected


def test_page_has_no_external_resource_and_no_script(page):
    assert page.fetched == []


def test_page_has_dark_and_print_styles(make_resource, book):
    text = cost.render_diff(cost.diff([], [make_resource()], book=book), "html")
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert "url(" not in text


def test_page_without_prices_on_two_days_states_that_there_is_no_history(make_resource, book):
    text = cost.render_diff(cost.diff([], [make_resource()], book=book), "html")
    assert "No price of this stack is known on two days" in text


def test_only_changed_prices_are_plotted():
    still = ("still", date(2026, 1, 1), Decimal(1))
    moved = [("moved", date(2026, month, 1), Decimal(month)) for month in (1, 2, 3)]
    assert plot.plot_price_history([still]) is None
    drawn = plot.plot_price_history([still, *moved])
    assert "moved" in drawn
    assert "still" not in drawn


def test_missing_data_gives_no_plot(book):
    assert plot.plot_cost_before_and_after(cost.diff([], [], book=book), "pool") is None
    assert plot.plot_what_if_costs(()) is None


def read_tags(page):
    """Return a page's elements, comments and the attributes that load or run something, in their order."""
    found = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            found.append(
                (tag, [name for name, _ in attributes if name.startswith("on") or name in ("href", "src")])
            )

        def handle_comment(self, data):
            found.append(("comment", data))

    Reader().feed(page)
    return found


def render_named(name, make_resource, book):
    machine = make_resource(
        name, inputs={"instanceType": "p4d.24xlarge", "region": "us-east-1", "tags": {"gpufleet-pool": name}}
    )
    strange = make_resource(name, f"acme:index:{name}")
    change = cost.StackChange(stack=name)
    return cost.render_diff(
        cost.diff([], [machine, strange], book=book, change=change), "html", show_skipped=True
    )


def test_name_of_any_text_adds_no_element_to_the_page(make_resource, book):
    texts = json.loads(Path(__file__).with_name("hostile_text.json").read_text(encoding="utf-8"))
    expected = read_tags(render_named("plain", make_resource, book))
    for name in [text for text in texts if set("<>&\"'").intersection(text)][::3]:
        assert read_tags(render_named(name, make_resource, book)) == expected, name
