"""Test that sentinels of the engine become markers at every depth."""

from __future__ import annotations

import pytest

from gpufleet.engine import SECRET, UNKNOWN
from gpufleet.engine.property_value import (
    OUTPUT_SIGNATURE,
    RESOURCE_SIGNATURE,
    SECRET_SIGNATURE,
    SIGNATURE_KEY,
    UNKNOWN_SENTINELS,
    decode_properties,
    decode_property_value,
)


@pytest.mark.parametrize("sentinel", sorted(UNKNOWN_SENTINELS))
def test_each_unknown_sentinel_decodes_to_unknown(sentinel):
    assert decode_property_value([{"a": sentinel}]) == [{"a": UNKNOWN}]


def test_engine_has_seven_unknown_sentinels():
    assert len(UNKNOWN_SENTINELS) == 7


def test_masked_secret_decodes_to_secret():
    assert decode_property_value("[secret]") is SECRET


@pytest.mark.parametrize("key", ["ciphertext", "plaintext"])
def test_signed_secret_decodes_to_secret_even_with_its_plaintext(key):
    assert decode_property_value({SIGNATURE_KEY: SECRET_SIGNATURE, key: '"hunter2"'}) is SECRET


def test_output_decodes_to_its_value_unless_secret_or_unknown():
    output = {SIGNATURE_KEY: OUTPUT_SIGNATURE, "value": 3}
    assert decode_property_value(output) == 3
    assert decode_property_value(output | {"secret": True}) is SECRET
    assert decode_property_value({SIGNATURE_KEY: OUTPUT_SIGNATURE}) is UNKNOWN


def test_resource_reference_decodes_to_its_urn():
    assert decode_property_value({SIGNATURE_KEY: RESOURCE_SIGNATURE, "urn": "urn:x"}) == "urn:x"


def test_plain_values_are_unchanged():
    value = {"a": [1, 2.5, None, True, "text"], "b": {}}
    assert decode_property_value(value) == value


def test_missing_properties_decode_to_an_empty_mapping():
    assert decode_properties(None) == {}


def test_arithmetic_on_an_unknown_value_raises():
    with pytest.raises(TypeError):
        UNKNOWN * 2
