from __future__ import annotations

import numpy as np
import pytest

from gpufleet import catalog, sizing
from gpufleet.catalog.gguf_type import FILE_TYPES, TENSOR_TYPES
from gpufleet.errors import InputError

gguf = pytest.importorskip("gguf")
Q8, Q4K = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_K


def test_types_match_the_gguf_library():
    sizes = gguf.GGML_QUANT_SIZES
    theirs = {kind.value: (kind.name.lower(), *sizes[kind]) for kind in gguf.GGMLQuantizationType}
    assert {number: theirs[number] for number in TENSOR_TYPES} == TENSOR_TYPES
    assert {name for name, *_ in theirs.values()} - {name for name, *_ in TENSOR_TYPES.values()} <= {"q2_0"}
    mixtures = {
        kind.value: kind.name.removeprefix("MOSTLY_").removeprefix("ALL_").lower()
        for kind in gguf.LlamaFileType
    }
    assert {number: mixtures[number] for number in FILE_TYPES} == FILE_TYPES


def write_gguf(path, *, kind="llama", tensors=None, **keys):
    """Write a small but whole GGUF file."""
    writer = gguf.GGUFWriter(path, kind)
    settings = {
        "block_count": 2,
        "embedding_length": 256,
        "feed_forward_length": 512,
        "context_length": 2048,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
    } | keys
    for key, value in settings.items():
        if value is not None:
            writer.add_uint32(f"{kind}.{key}", value)
    writer.add_name("Toy")
    writer.add_file_type(15)
    plain = {"token_embd.weight": (np.zeros((1000, 256), np.float16), None)}
    for name, (data, dtype) in (tensors or plain).items():
        writer.add_tensor(name, data, raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def blocks(rows, columns, kind):
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    return np.zeros((rows, columns // weights * size), np.uint8), kind


def test_stored_bytes_are_summed_from_the_tensors(tmp_path):
    tensors = {
        "token_embd.weight": (np.zeros((1000, 256), np.float16), None),
        "output.weight": blocks(1000, 256, Q8),
        "blk.0.ffn_down.weight": blocks(256, 512, Q4K),
    }
    model = catalog.get_model(str(write_gguf(tmp_path / "toy.gguf", tensors=tensors)))
    assert dict(model.stored) == {"f16": 512000, "q8_0": 1000 * 256 / 32 * 34, "q4_k": 256 * 512 / 256 * 144}
    assert model.parameters == 1000 * 256 * 2 + 256 * 512
    assert sizing.weight_bytes(model, "as_stored") == sum(dict(model.stored).values())
    assert model.stored_precision == "q4_k_m"  # general.file_type 15
    assert sizing.weight_bytes(model, "q4_k_m") == sizing.weight_bytes(model, "as_stored")


def test_model_shape_is_read(tmp_path):
    model = catalog.get_model(str(write_gguf(tmp_path / "toy.gguf")))
    assert (model.name, model.layers, model.heads, model.kv_heads, model.head_dim) == ("Toy", 2, 4, 2, 64)
    assert (model.vocabulary, model.tied_embeddings, model.max_context) == (1000, True, 2048)


def test_unused_experts_are_not_counted_as_active(tmp_path):
    keys = {"expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 64}
    tensors = {
        "token_embd.weight": (np.zeros((10, 256), np.float16), None),
        "blk.0.ffn_down_exps.weight": (np.zeros((8, 256, 64), np.float16), None),
    }
    model = catalog.get_model(str(write_gguf(tmp_path / "moe.gguf", tensors=tensors, **keys)))
    assert (model.experts.count, model.experts.per_token, model.experts.intermediate) == (8, 2, 64)
    assert model.active_parameters == 10 * 256 + 8 * 256 * 64 / 4


def test_latent_attention_is_read(tmp_path):
    keys = {
        "attention.kv_lora_rank": 32,
        "attention.q_lora_rank": 64,
        "rope.dimension_count": 16,
        "attention.key_length": 48,
        "attention.value_length": 32,
    }
    model = catalog.get_model(str(write_gguf(tmp_path / "mla.gguf", kind="deepseek2", **keys)))
    assert (model.latent.kv_rank, model.latent.rope_dim, model.latent.nope_dim, model.latent.value_dim) == (
        32,
        16,
        32,
        32,
    )
    assert sizing.kv_cache_bytes_per_token(model) == 2 * (32 + 16) * 2


def test_sliding_windows_follow_the_architecture(tmp_path):
    model = catalog.get_model(
        str(write_gguf(tmp_path / "w.gguf", kind="gemma2", **{"attention.sliding_window": 4096}))
    )
    assert (model.sliding_window, model.sliding_layers) == (4096, 1)


@pytest.mark.parametrize("kept_bytes", [0, 3, 4, 10, 50, 200, -1000, -1])
def test_truncated_file_is_refused_in_one_line(tmp_path, kept_bytes):
    content = write_gguf(tmp_path / "whole.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(content[:kept_bytes])
    with pytest.raises(InputError, match=r"cut\.gguf: is not a complete GGUF file") as excinfo:
        catalog.get_model(str(tmp_path / "cut.gguf"))
    assert "\n" not in str(excinfo.value)


@pytest.mark.parametrize(
    ("junk", "reason"),
    [
        (b"GGUF" + b"\3\0\0\0" * 40, "truncated or damaged"),
        (b"a page of a website", "no GGUF magic number"),
        (b"", "empty"),
    ],
)
def test_reason_of_a_refusal_has_no_library_error_text(tmp_path, junk, reason):
    (tmp_path / "junk.gguf").write_bytes(junk)
    with pytest.raises(InputError, match=reason) as excinfo:
        catalog.get_model(str(tmp_path / "junk.gguf"))
    assert "axis" not in str(excinfo.value)


@pytest.mark.parametrize("junk", [b"GGUF", b"not a model at all, but long enough to look at", b"\0" * 400])
def test_file_that_is_not_gguf_is_refused_in_one_line(tmp_path, junk):
    (tmp_path / "junk.gguf").write_bytes(junk)
    with pytest.raises(InputError, match="is not a complete GGUF file"):
        catalog.get_model(str(tmp_path / "junk.gguf"))


def test_damaged_header_is_refused(tmp_path):
    content = bytearray(write_gguf(tmp_path / "whole.gguf").read_bytes())
    content[24:32] = b"\xff" * 8  # the length of the first key
    (tmp_path / "bad.gguf").write_bytes(content)
    with pytest.raises(InputError):
        catalog.get_model(str(tmp_path / "bad.gguf"))


def test_missing_key_is_named(tmp_path):
    with pytest.raises(InputError, match=r"llama\.block_count: is missing"):
        catalog.get_model(str(write_gguf(tmp_path / "toy.gguf", block_count=None)))


def test_parts_of_a_split_file_are_summed(tmp_path):
    write_gguf(tmp_path / "big-00001-of-00002.gguf")
    write_gguf(tmp_path / "big-00002-of-00002.gguf", tensors={"blk.0.ffn_up.weight": blocks(512, 256, Q8)})
    model = catalog.get_model(str(tmp_path / "big-00001-of-00002.gguf"))
    assert dict(model.stored) == {"f16": 512000, "q8_0": 512 * 256 / 32 * 34}


def test_missing_part_is_named(tmp_path):
    write_gguf(tmp_path / "big-00001-of-00002.gguf")
    with pytest.raises(InputError, match=r"part big-00002-of-00002\.gguf is missing"):
        catalog.get_model(str(tmp_path / "big-00001-of-00002.gguf"))
