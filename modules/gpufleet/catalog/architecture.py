"""The shape of a language model, as far as memory and speed depend on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MixtureOfExperts:
    """The mixture-of-experts layers of a model; its other layers are dense."""

    count: int
    per_token: int
    shared: int  # experts that every token passes
    intermediate: int  # width of one expert
    dense_layers: int = 0  # layers without experts
    shared_intermediate: int = 0  # width of one shared expert; 0: as wide as the others
    hidden: int = 0  # width that routed experts read and write; 0: the model's


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek): each token stores one compressed vector instead of heads."""

    kv_rank: int
    rope_dim: int
    q_rank: int  # 0: queries are not compressed
    value_dim: int
    nope_dim: int


@dataclass(frozen=True)
class LinearAttention:
    """Layers that keep one state of a fixed size per sequence instead of keys and values (Qwen3-Next, Qwen3.5)."""

    layers: int
    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    convolution: int = 4

    @property
    def state_elements_per_layer(self) -> int:
        """Return the elements that one layer stores per sequence: recurrent matrix and convolution window."""
        window = (2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim) * self.convolution
        return self.value_heads * self.value_dim * self.key_dim + window


@dataclass(frozen=True)
class LayerCache:
    """What ``layers`` equal layers keep of each token: ``elements`` of keys and values, in the last ``window`` tokens.

    ``window`` 0: of all tokens. ``byte_elements`` are stored in one byte each whatever the cache's precision.
    """

    layers: int
    elements: int
    window: int = 0
    byte_elements: int = 0


@dataclass(frozen=True)
class ExtraWeights:
    """Matrices that only some families have, in ``layers`` layers; ``kind`` as in ``WeightMatrixGroup``, or its name.

    Negative rows are weights that these layers do not have.
    """

    kind: str
    rows: int
    columns: int
    layers: int = 1


@dataclass(frozen=True)
class StoredQuantization:
    """How a published model stores its weights.

    ``precision`` is its name for ``--precision``. ``bits`` pairs a tensor's name (``WeightMatrixGroup.tensor_name``)
    with its bits per weight, scales included and averaged over the layers; all other tensors have 16 bits.
    """

    method: str
    precision: str
    bits: tuple[tuple[str, float], ...]
    source: str = ""

    def get_bits(self, tensor_name: str) -> float:
        """Return the bits per weight of these tensors."""
        return next((bits for name, bits in self.bits if name == tensor_name), 16.0)


@dataclass(frozen=True)
class ModelArchitecture:
    """One model. ``parameters`` counts all weights, ``active_parameters`` those that one token uses.

    ``caches`` are those of layers whose caches differ; empty: all follow from heads and windows. ``state_bytes`` is
    what recurrent layers keep of a sequence; ``recurrent_layers`` of them have no keys and values.
    ``sliding_layers`` of ``layers`` attend to the last ``sliding_window`` tokens only.
    ``biases`` names the matrices that have one: qkv, o, mlp, experts, norm, head.
    ``stored`` is the content of a file as pairs of tensor type and bytes; empty if no file was read.
    """

    name: str
    family: str
    parameters: float
    active_parameters: float
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied_embeddings: bool
    max_context: int
    experts: MixtureOfExperts | None = None
    latent: LatentAttention | None = None
    sliding_window: int = 0
    sliding_layers: int = 0
    gated: bool = True  # three matrices in the feed-forward block (SwiGLU, GeGLU), else two
    source: str = ""
    as_of: str = ""
    linear: LinearAttention | None = None
    biases: tuple[str, ...] = ()
    norms: int = 2  # normalisations per layer with the width of the model
    qk_norm: int = 0  # width of the query and key normalisation; 0: none
    positions: int = 0  # learned positions (GPT-3)
    query_gate: bool = False  # queries carry a gate of their own size (Qwen3-Next)
    stored: tuple[tuple[str, float], ...] = ()
    stored_precision: str = ""  # the precision that the file states: q4_k_m, bf16 …
    caches: tuple[LayerCache, ...] = ()
    state_bytes: float = 0.0
    recurrent_layers: int = 0
    extra: tuple[ExtraWeights, ...] = ()
    quantization: StoredQuantization | None = (
        None  # how the published model stores its weights; None: in 16 bits
    )

    @property
    def dense_layer_count(self) -> int:
        """Return how many layers have one feed-forward block for all tokens."""
        return self.experts.dense_layers if self.experts else self.layers

    @property
    def attention_layer_count(self) -> int:
        """Return how many layers keep keys and values."""
        return self.layers - (self.linear.layers if self.linear else self.recurrent_layers)
