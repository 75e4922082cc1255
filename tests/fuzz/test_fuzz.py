"""The short form of the campaign: past findings, and some hundred mutated inputs for each parser."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from campaign import one_input, try_input
from target import TARGETS

import mutation  # beside this file; tests are no package

SEED = 2026
INPUTS = 150  # for each parser; the campaign of `make fuzz` tries 100,000
EVERY = pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))


@EVERY
def test_what_once_broke_a_parser_does_not_again(target):
    for path in target.findings():
        wrong = try_input(target, path.read_bytes()).wrong
        assert not wrong or wrong.startswith("took"), f"{path}: {wrong}"


@EVERY
def test_mutated_inputs_are_taken_or_refused_in_one_line(target):
    seeds = target.seeds()
    for content in seeds:
        assert not try_input(target, content).wrong
    for number in range(INPUTS):
        wrong = try_input(target, one_input(target, SEED, number, seeds)).wrong
        # A busy machine takes longer; the campaign judges time and memory.
        assert not wrong or wrong.startswith("took"), f"{target.name} #{number} of seed {SEED}: {wrong}"


@EVERY
def test_seeds_are_taken(target):
    """A target of which every seed is refused would test nothing but the refusal."""
    refused = [try_input(target, content).refused for content in target.seeds()]
    assert not all(refused) or target.name == "server answer"


def test_an_input_follows_from_seed_target_and_number():
    target = TARGETS["preview"]
    first = [one_input(target, 5, number, target.seeds()) for number in range(20)]
    assert first == [one_input(target, 5, number, target.seeds()) for number in range(20)]
    assert len(set(first)) > 15


def test_inputs_are_bounded():
    random = Random(1)
    assert all(len(mutation.mutate(random, [b"[1]"], "json")) <= mutation.MOST_BYTES for _ in range(300))


def test_sixteen_parsers_and_more_are_fuzzed():
    assert len(TARGETS) >= 30
