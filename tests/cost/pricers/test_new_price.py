"""Test the tool that adds a priced type, on a scratch copy of the files that it writes."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from gpufleet.cost.pricing.billing import load_free_resource_types
from gpufleet.cost.pricing.pricers import PRICERS
from tools import new_price, type_page
from tools.price_case import format_cases, format_examples

JOB = "gcp:bigquery/job:Job"  # the type of the recipe
SLOTS = ["--component", "slots", "--item", "bigquery:{reservation|standard}:slot"]
QUERIES = ["--component", "queries", "--item", "bigquery:query_tib"]
BY_USE = [*QUERIES, "--quantity", "use:monthly_queries_tb"]
ROW = f"{JOB},queries,bigquery:query_tib,use:monthly_queries_tb,,,,yes"
FILES = (
    new_price.CHARGES,
    new_price.KEYS,
    new_price.FREE,
    new_price.CASES,
    new_price.EXAMPLES,
    new_price.PAGE,
)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return a copy of the files without the job: it may have a price one day."""
    monkeypatch.delitem(PRICERS, JOB, raising=False)
    texts = {path: (new_price.ROOT / path).read_text() for path in FILES}
    for path in (new_price.CHARGES, new_price.KEYS, new_price.FREE):
        lines = texts[path].splitlines(keepends=True)
        texts[path] = "".join(line for line in lines if not line.startswith(f"{JOB},"))
    cases, examples = (json.loads(texts[path]) for path in (new_price.CASES, new_price.EXAMPLES))
    texts[new_price.CASES] = format_cases(case for case in cases if case["type"] != JOB)
    texts[new_price.EXAMPLES] = format_examples({key: each for key, each in examples.items() if key != JOB})
    texts[new_price.PAGE] = type_page.format_page(PRICERS, load_free_resource_types())
    for path, text in texts.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.fixture
def before(root):
    return read_texts(root)


@pytest.fixture
def add(root, tmp_path):
    def run(*arguments, example=None):
        if example is not None:
            (tmp_path / "example.json").write_text(json.dumps(example))
            arguments = (*arguments, "--example", str(tmp_path / "example.json"))
        return new_price.main(arguments, root)

    return run


def read_texts(root):
    return {path: (root / path).read_text() for path in FILES}


def added_lines(root, before, path):
    old = set(before[path].splitlines())
    return [line for line in (root / path).read_text().splitlines() if line not in old]


def find_cases(root, type_=JOB):
    return [case for case in json.loads((root / new_price.CASES).read_text()) if case["type"] == type_]


def test_row_key_case_example_and_docs_line_are_written(root, before, add, capsys):
    assert add(JOB, *BY_USE) == 0
    assert added_lines(root, before, new_price.CHARGES) == [ROW]
    assert added_lines(root, before, new_price.KEYS) == [
        f"{JOB},monthly_queries_tb,TiB,scanned by queries in the month"
    ]
    assert find_cases(root) == [
        {
            "type": JOB,
            "inputs": {"location": "us-central1"},
            "usage": {"monthly_queries_tb": 1000},
            "components": {
                "queries": {"item": "bigquery:query_tib", "quantity": "1000", "usd": "6.25", "per": "use"}
            },
            "usd_per_month": "6250",
            "confirmed_by": "",
        }
    ]
    assert json.loads((root / new_price.EXAMPLES).read_text())[JOB][0]["inputs"] == {
        "location": "us-central1"
    }
    assert any("Job" in line for line in added_lines(root, before, new_price.PAGE))
    assert "confirmed_by" in capsys.readouterr().out


def test_command_of_the_recipe_works(add):
    recipe = (new_price.ROOT / "docs/architecture.md").read_text()
    command = re.search(r"^python -m tools\.new_price (.*\\\n.*)$", recipe, re.MULTILINE)
    assert add(*shlex.split(command[1].replace("\\\n", ""))) == 0


def test_rows_stay_sorted_and_no_other_row_changes(root, before, add):
    add(JOB, *BY_USE)
    for path in (new_price.CHARGES, new_price.KEYS):
        lines = (root / path).read_text().splitlines()
        assert lines[1:] == sorted(
            lines[1:], key=lambda line: line.split(",")[: 1 + (path == new_price.KEYS)]
        )
        assert [line for line in lines if not line.startswith(JOB)] == before[path].splitlines()


def test_example_gives_inputs_and_amounts(root, add):
    add(JOB, *BY_USE, example={"usage": {"monthly_queries_tb": 2}})
    (case,) = find_cases(root)
    assert (case["usage"], case["usd_per_month"]) == ({"monthly_queries_tb": 2}, "12.5")


def test_another_component_must_be_confirmed_again(root, add):
    add(JOB, *BY_USE)
    cases = json.loads((root / new_price.CASES).read_text())
    for case in cases:
        case["confirmed_by"] = "somebody's"
    (root / new_price.CASES).write_text(json.dumps(cases))
    assert add(JOB, *SLOTS, example={"inputs": {"reservation": "x/ENTERPRISE"}}) == 0
    (case,) = find_cases(root)
    assert list(case["components"]) == ["queries", "slots"]
    assert case["components"]["slots"]["item"] == "bigquery:enterprise:slot"
    assert case["confirmed_by"] == ""
    assert {each["confirmed_by"] for each in json.loads((root / new_price.CASES).read_text())} == {
        "", "somebody's",
    }  # fmt: skip


def test_item_with_one_price_everywhere_has_the_global_scope(root, before, add):
    assert add(JOB, "--component", "zone", "--item", "dns:zone") == 0
    assert added_lines(root, before, new_price.CHARGES) == [f"{JOB},zone,dns:zone,1,,,global,yes"]
    assert find_cases(root)[0]["usd_per_month"] == "0.2"


def test_type_that_no_sdk_can_check_is_said(add, capsys):
    assert add("azure:network/abacus:Abacus", "--component", "gateway", "--item", "nat_gateway") == 0
    assert "no SDK of azure is installed" in capsys.readouterr().out


def test_new_key_needs_its_unit_and_meaning(root, before, add, capsys):
    arguments = (JOB, *QUERIES, "--quantity", "use:monthly_job_tb")
    assert add(*arguments) == 2
    assert "--unit and --meaning" in capsys.readouterr().err
    assert add(*arguments, "--unit", "TiB", "--meaning", "scanned, by jobs") == 0
    assert added_lines(root, before, new_price.KEYS) == [f'{JOB},monthly_job_tb,TiB,"scanned, by jobs"']


def test_free_type_is_no_longer_free(root, add):
    free = "gcp:compute/network:Network"
    assert f"\n{free}," in (root / new_price.FREE).read_text()
    assert add(free, "--component", "zone", "--item", "dns:zone") == 0
    assert f"\n{free}," not in (root / new_price.FREE).read_text()


def test_pattern_of_free_types_is_narrowed_by_hand(root, before, add, capsys):
    before[new_price.FREE] += "gcp:bigquery/*,a pattern\n"
    (root / new_price.FREE).write_text(before[new_price.FREE])
    assert add(JOB, *BY_USE) == 2
    assert "gcp:bigquery/* is free" in capsys.readouterr().err
    assert read_texts(root) == before


@pytest.mark.parametrize(
    "mistake",
    [
        (["gcp:bigquery/jb:Job", *BY_USE], None, f"has no type gcp:bigquery/jb:Job; did you mean {JOB}?"),
        (["azure:network", *BY_USE], None, "write PACKAGE:MODULE:NAME"),
        (["oci:a/b:C", *BY_USE], None, "'oci' is not a package"),
        (["gcp:dns/managedZone:ManagedZone", "--component", "zone", "--item", "dns:zone"], None, "has zone already"),
        (["gcp:sql/databaseInstance:DatabaseInstance", *QUERIES], None, "has a pricer in Python"),
        ([JOB, "--component", "a,b", "--item", "dns:zone"], None, "'a,b' is not a name"),
        ([JOB, "--component", "queries", "--item", "bigquery:qery_tib"], None, "did you mean bigquery:query_tib?"),
        ([JOB, "--component", "queries", "--item", "abacus"], None, "Adding a priced type"),
        ([JOB, "--component", "queries"], None, "--item"),
        ([JOB, *QUERIES, "--quantity", "used:monthly_queries_tb"], None, "is not a quantity"),
        ([JOB, *QUERIES, "--quantity", "2*use:monthly_queries_tb"], None, "is not a quantity"),
        ([JOB, *QUERIES, "--only", "copy"], None, "is not a condition"),
        ([JOB, *QUERIES, "--listed", "maybe"], None, "not one of yes, no"),
        ([JOB, *QUERIES, "--unit", "TiB"], None, "--unit: is for a key"),
        ([JOB, *QUERIES, "--quantity", "count:slots"], None, "has no slots"),
        ([JOB, *SLOTS], None, "has no reservation"),
        ([JOB, *QUERIES, "--quantity", "count:slots"], {"inputs": {"slots": 2}}, "has no property 'slots'"),
        ([JOB, *BY_USE], {"inputs": {"location": "nowhere-west9"}}, "price for bigquery:query_tib in nowhere-west9"),
        ([JOB, *BY_USE], {"input": {}}, "is not an example"),
        ([JOB, *BY_USE], {"usage": {"monthly_query_tb": 2}}, "use one of monthly_queries_tb"),
        ([JOB, *BY_USE], {"usage": {"monthly_queries_tb": "many"}}, "monthly_queries_tb: 'many' is not an amount"),
    ],
)  # fmt: skip
def test_mistake_is_one_line_and_writes_nothing(root, before, add, capsys, mistake):
    arguments, example, problem = mistake
    assert add(*arguments, example=example) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
    assert read_texts(root) == before
