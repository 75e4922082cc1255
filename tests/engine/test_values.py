"""Sentinels of the engine become markers, at every depth."""

from __future__ import annotations

import pytest

from gpufleet.engine import SECRET, UNKNOWN
from gpufleet.engine.values import (
    OUTPUT_SIGNATURE,
    RESOURCE_SIGNATURE,
    SECRET_SIGNATURE,
    SIGNATURE_KEY,
    UNKNOWN_SENTINELS,
    decode,
    decode_object,
)


@pytest.mark.parametrize("sentinel", sorted(UNKNOWN_SENTINELS))
def test_each_unknown_sentinel_is_the_marker(sentinel):
    assert decode([{"a": sentinel}]) == [{"a": UNKNOWN}]


def test_the_engine_has_seven_unknown_sentinels():
    assert len(UNKNOWN_SENTINELS) == 7


def test_a_blinded_secret_is_the_marker():
    assert decode("[secret]") is SECRET


@pytest.mark.parametrize("key", ["ciphertext", "plaintext"])
def test_a_signed_secret_is_the_marker_even_with_its_text(key):
    assert decode({SIGNATURE_KEY: SECRET_SIGNATURE, key: '"hunter2"'}) is SECRET


def test_an_output_shows_its_value_unless_secret_or_unknown():
    output = {SIGNATURE_KEY: OUTPUT_SIGNATURE, "value": 3}
    assert decode(output) == 3
    assert decode(output | {"secret": True}) is SECRET
    assert decode({SIGNATURE_KEY: OUTPUT_SIGNATURE}) is UNKNOWN


def test_a_resource_reference_is_its_urn():
    assert decode({SIGNATURE_KEY: RESOURCE_SIGNATURE, "urn": "urn:x"}) == "urn:x"


def test_plain_values_stay():
    value = {"a": [1, 2.5, None, True, "text"], "b": {}}
    assert decode(value) == value


def test_no_properties_are_an_empty_bag():
    assert decode_object(None) == {}


def test_arithmetic_on_an_unknown_fails_loudly():
    with pytest.raises(TypeError):
        UNKNOWN * 2
