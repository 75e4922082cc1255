"""The short form of the campaign: past findings, and some hundred mutated inputs for each parser."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from campaign import make_input, try_input
from target import TARGETS

import mutation  # next to this file; tests are not a package

SEED = 2026
INPUTS = 150  # for each parser; the campaign of `make fuzz` tries 100,000
EVERY = pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))


@EVERY
def test_former_failures_are_handled(target):
    for path in target.findings():
        mistake = try_input(target, path.read_bytes()).problem
        assert not mistake or mistake.startswith("took"), f"{path}: {mistake}"


@EVERY
def test_mutated_inputs_are_accepted_or_refused_with_one_line(target):
    seeds = target.seeds()
    for content in seeds:
        assert not try_input(target, content).problem
    for number in range(INPUTS):
        mistake = try_input(target, make_input(target, SEED, number, seeds)).problem
        # A busy machine takes longer; the campaign judges time and memory.
        assert not mistake or mistake.startswith("took"), f"{target.name} #{number} of seed {SEED}: {mistake}"


@EVERY
def test_each_target_accepts_a_seed(target):
    """A target of which every seed is refused would test nothing but the refusal."""
    refused = [try_input(target, content).refused for content in target.seeds()]
    assert not all(refused) or target.name == "server answer"


def test_input_is_reproducible_from_seed_target_and_number():
    target = TARGETS["preview"]
    first = [make_input(target, 5, number, target.seeds()) for number in range(20)]
    assert first == [make_input(target, 5, number, target.seeds()) for number in range(20)]
    assert len(set(first)) > 15


def test_input_size_is_bounded():
    random = Random(1)
    assert all(len(mutation.mutate(random, [b"[1]"], "json")) <= mutation.MOST_BYTES for _ in range(300))


def test_at_least_thirty_parsers_are_fuzzed():
    assert len(TARGETS) >= 30
