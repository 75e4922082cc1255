from __future__ import annotations

import numpy as np
import pytest

from gpufleet import catalog, sizing
from gpufleet.catalog.gguf_type import FILE_TYPES, TENSOR_TYPES
from gpufleet.errors import InputError
from gpufleet.sizing.memory.weights import list_matrix_bytes

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


def write_gguf(path, *, kind="llama", tensors=None, file_type=15, **keys):
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
        if isinstance(value, list):
            writer.add_array(f"{kind}.{key}", value)
        elif value is not None:
            writer.add_uint32(f"{kind}.{key}", value)
    writer.add_name("Toy")
    writer.add_file_type(file_type)
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


def test_key_of_an_indexer_is_cached(tmp_path):
    """DeepSeek V3.2 keeps a key of 128 for its indexer beside the 576 values of latent attention."""
    keys = {
        "attention.kv_lora_rank": 512,
        "rope.dimension_count": 64,
        "attention.key_length": 192,
        "attention.value_length": 128,
        "attention.indexer.key_length": 128,
    }
    model = catalog.get_model(str(write_gguf(tmp_path / "dsa.gguf", kind="deepseek32", **keys)))
    assert sizing.kv_cache_bytes_per_token(model) == 2 * (512 + 64 + 128) * 2


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


@pytest.mark.parametrize("file_type", [40, 1024, 4242])  # Q1_0, "guessed", of tomorrow
def test_exact_bytes_win_over_any_guess(tmp_path, file_type):
    """A file in Q1_0 was counted in 16 bits: 14 times too large."""
    tensors = {
        "token_embd.weight": blocks(1000, 256, gguf.GGMLQuantizationType.Q1_0),
        "blk.0.ffn_down.weight": blocks(256, 512, gguf.GGMLQuantizationType.Q1_0),
        "blk.0.ssm_conv1d.weight": (np.zeros((256, 4), np.float32), None),
    }
    path = write_gguf(tmp_path / "one.gguf", tensors=tensors, file_type=file_type)
    model = catalog.get_model(str(path))
    precision = sizing.stored_precision(model)
    exact = (1000 * 256 + 256 * 512) // 128 * 18 + 256 * 4 * 4
    assert precision == "q1_0"
    assert sizing.weight_bytes(model, precision) == exact
    read = sum(size for _, size in list_matrix_bytes(model, precision))
    assert read == pytest.approx(exact)


def test_embedding_output_and_experts_keep_their_own_bytes(tmp_path):
    keys = {"expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 256}
    tensors = {
        "token_embd.weight": (np.zeros((10, 256), np.float16), None),
        "output.weight": blocks(10, 256, Q8),
        "blk.0.ffn_down_exps.weight": (np.zeros((8, 256, 144), np.uint8), Q4K),
        "blk.0.attn_q.weight": (np.zeros((256, 256), np.float16), None),
    }
    model = catalog.get_model(str(write_gguf(tmp_path / "moe.gguf", tensors=tensors, **keys)))
    sizes = {"embedding": 0.0, "output": 0.0, "routed": 0.0}
    for matrix, size in list_matrix_bytes(model, "q4_k_m"):
        sizes["routed" if matrix.routed else matrix.kind] = size + sizes.get(
            "routed" if matrix.routed else matrix.kind, 0.0
        )
    assert sizes["embedding"] == pytest.approx(10 * 256 * 2)
    assert sizes["output"] == pytest.approx(10 * 256 / 32 * 34)
    assert sizes["routed"] == pytest.approx(8 * 256 * 144)


LFM2 = {  # LFM2-1.2B: 6 of 16 layers attend
    "block_count": 16, "embedding_length": 2048, "attention.head_count": 32, "shortconv.l_cache": 3,
    "attention.head_count_kv": [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0],
}  # fmt: skip
QWEN3NEXT = {  # Qwen3-Next-80B-A3B: every fourth layer attends
    "block_count": 48, "embedding_length": 2048, "attention.head_count": 16, "attention.head_count_kv": 2,
    "attention.key_length": 256, "attention.value_length": 256, "full_attention_interval": 4, "ssm.conv_kernel": 4,
    "ssm.inner_size": 4096, "ssm.state_size": 128, "ssm.group_count": 16, "ssm.time_step_rank": 32,
}  # fmt: skip
GEMMA3N = {  # gemma-3n-E4B: the last 15 of 35 layers have no cache of their own
    "block_count": 35, "embedding_length": 2048, "attention.head_count": 8, "attention.head_count_kv": 2,
    "attention.key_length": 256, "attention.value_length": 256, "attention.sliding_window": 512,
    "attention.shared_kv_layers": 15, "attention.sliding_window_pattern": [True, True, True, True, False] * 7,
}  # fmt: skip
GEMMA3 = {  # gemma-3-1b
    "block_count": 26, "embedding_length": 1152, "attention.head_count": 4, "attention.head_count_kv": 1,
    "attention.key_length": 256, "attention.value_length": 256, "attention.sliding_window": 512,
}  # fmt: skip
OPENELM = {  # OpenELM-270M has other heads in each layer
    "block_count": 4, "embedding_length": 1280, "attention.head_count": [12, 12, 16, 20],
    "attention.head_count_kv": [3, 3, 4, 5], "attention.key_length": 64, "attention.value_length": 64,
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "keys", "sizes", "all_layers"),
    [  # by hand at 32,768 tokens in 16 bits; all_layers: what every layer with the largest heads would take
        ("lfm2", LFM2, (6 * 2 * 8 * 64 * 2 * 32768, 10 * 2 * 2048 * 4), 16 * 2 * 8 * 64 * 2 * 32768),
        (
            "qwen3next",
            QWEN3NEXT,
            (12 * 2 * 2 * 256 * 2 * 32768, 36 * (3 * (4096 + 2 * 16 * 128) + 4096 * 128) * 4),
            48 * 2 * 2 * 256 * 2 * 32768,
        ),
        ("gemma3n", GEMMA3N, (2 * 2 * 256 * 2 * (4 * 32768 + 16 * 1024), 0), 35 * 2 * 2 * 256 * 2 * 32768),
        ("gemma3", GEMMA3, (2 * 256 * 2 * (4 * 32768 + 22 * 1024), 0), 26 * 2 * 256 * 2 * 32768),
        ("openelm", OPENELM, (2 * 64 * 2 * (3 + 3 + 4 + 5) * 32768, 0), 4 * 2 * 5 * 64 * 2 * 32768),
    ],
    ids=["lfm2", "qwen3next", "gemma3n", "gemma3", "openelm"],
)
def test_caches_of_each_layer_are_summed(tmp_path, kind, keys, sizes, all_layers):
    model = catalog.get_model(str(write_gguf(tmp_path / "layers.gguf", kind=kind, **keys)))
    assert sizing.kv_cache_bytes(model, 32768, micro_batch=512) == sum(sizes)
    assert sum(sizes) < 0.85 * all_layers


def test_window_holds_the_micro_batch_only_in_llama_cpp(tmp_path):
    model = catalog.get_model(str(write_gguf(tmp_path / "w.gguf", kind="gemma3", **GEMMA3)))
    near = [sizing.kv_cache_bytes(model, 100_000, micro_batch=size) for size in (0, 512)]
    assert near[1] - near[0] == 2 * 256 * 2 * 22 * 512


def test_list_shorter_than_the_layers_is_refused(tmp_path):
    path = write_gguf(tmp_path / "short.gguf", kind="lfm2", **LFM2 | {"attention.head_count_kv": [0, 8]})
    with pytest.raises(InputError, match=r"lfm2\.attention\.head_count_kv: has 2 numbers for 16 layers"):
        catalog.get_model(str(path))


def test_impossible_number_of_layers_is_refused(tmp_path):
    path = write_gguf(tmp_path / "deep.gguf", block_count=4_000_000_000)
    with pytest.raises(
        InputError, match=r"llama\.block_count: 4,000,000,000 layers are more than any model has"
    ):
        catalog.get_model(str(path))


def test_unknown_type_of_tensor_is_named(tmp_path):
    content = bytearray(write_gguf(tmp_path / "whole.gguf").read_bytes())
    place = content.index(b"token_embd.weight") + len(b"token_embd.weight") + 4 + 2 * 8
    content[place : place + 4] = (77).to_bytes(4, "little")
    (tmp_path / "new.gguf").write_bytes(content)
    with pytest.raises(InputError, match=r"new\.gguf: has tensors of type 77, which is not known"):
        catalog.get_model(str(tmp_path / "new.gguf"))
