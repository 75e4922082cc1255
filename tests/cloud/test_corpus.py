"""Test the rules against pools that the vendors' documents refuse or allow."""

from __future__ import annotations

import datetime as dt
import re

import pytest

import cloud_corpus as corpus
from gpufleet import fleet
from gpufleet.errors import InputError

ILLEGAL, LEGAL = corpus.load_cases("illegal"), corpus.load_cases("legal")


@pytest.mark.parametrize("case", ILLEGAL, ids=corpus.case_id)
def test_illegal_pool_is_refused_by_its_rule(case, tmp_path):
    with pytest.raises(InputError) as excinfo:
        fleet.parse_fleet(corpus.build_spec(case), stack="test", root=tmp_path)
    assert f"(rule {case['rule']})" in str(excinfo.value)
    assert excinfo.value.exit_code == 2
    assert excinfo.value.remedy


@pytest.mark.parametrize("case", LEGAL, ids=corpus.case_id)
def test_legal_pool_is_accepted(case, tmp_path):
    assert fleet.parse_fleet(corpus.build_spec(case), stack="test", root=tmp_path).pools


def test_corpus_is_large_enough_and_each_case_has_a_source():
    assert len(ILLEGAL) >= 60
    assert len(LEGAL) >= 20
    assert [case["id"] for case in (*ILLEGAL, *LEGAL) if len(case["source"]) < 15] == []
    ids = [corpus.case_id(case) for case in (*ILLEGAL, *LEGAL)]
    assert len(set(ids)) == len(ids)


def test_corpus_says_which_sources_were_read_again():
    """A case without `read` names its page from memory; their number must not grow."""
    assert [case["id"] for case in ILLEGAL if not isinstance(case.get("read", dt.date.min), dt.date)] == []
    dated = re.compile(r"\.md \d{4}-\d\d-\d\d")
    from_memory = [case for case in ILLEGAL if "read" not in case and not dated.search(case["source"])]
    assert len(from_memory) <= 61
