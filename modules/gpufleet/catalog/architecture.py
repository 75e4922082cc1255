"""The shape of a language model, as far as memory and speed depend on it."""

from __future__ import annotations

from gpufleet.quick_dataclass import dataclass


@dataclass(frozen=True)
class MixtureOfExperts:
    """The mixture-of-experts layers of a model; its other layers are dense."""

    count: int
    per_token: int
    shared: int  # experts that every token passes
    intermediate: int  # width of one expert
    dense_layers: int = 0  # layers without experts
    shared_intermediate: int = 0  # width of one shared expert; 0: as wide as the others
    latent: int = 0  # width that tokens are projected to for the routed experts (Nemotron 3); 0: the model's


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
    """Layers that keep one state of a fixed size per sequence instead of keys and values.

    Gated DeltaNet (Qwen3-Next, Qwen3.5), and Mamba-2 (Nemotron 3) with its groups as key heads, its state as key
    dimension and its heads as value heads: both have the same projections.
    """

    layers: int
    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    convolution: int = 4
    state_bytes: int = 2  # of one element of the state: 4 where the model states 32 bits

    @property
    def state_elements_per_layer(self) -> int:
        """Return the elements that one layer stores per sequence: recurrent matrix and convolution window."""
        window = (2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim) * self.convolution
        return self.value_heads * self.value_dim * self.key_dim + window


@dataclass(frozen=True)
class LayerCache:
    """What ``layers`` equal layers keep of each token: ``elements`` of keys and values, in the last ``window`` tokens.

    ``window`` 0: of all tokens. ``stride`` tokens share one entry (DeepSeek V4). Sparse attention reads at most ``top``
    entries, 0: all. ``is_index``: keys that only choose the entries, to which heads do not attend. ``byte_elements``
    have one byte each whatever the cache's precision.
    """

    layers: int
    elements: int
    window: int = 0
    stride: int = 1
    top: int = 0
    is_index: bool = False
    byte_elements: int = 0

    def count_entries(self, tokens: float) -> float:
        """Return how many entries one layer keeps of a sequence."""
        return (min(tokens, self.window) if self.window else tokens) / self.stride

    def count_read_entries(self, tokens: float) -> float:
        """Return how many entries the attention of one token reads."""
        entries = self.count_entries(tokens)
        return min(entries, self.top) if self.top else entries


@dataclass(frozen=True)
class ExtraMatrix:
    """Weights that the other fields do not describe: indexers, compressors, full attention of another width."""

    kind: str  # as in parameter_count.WeightMatrixGroup
    rows: int
    columns: int
    layers: int = 1  # negative rows: weights that these layers do not have


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

    ``sliding_layers`` of ``layers`` attend to the last ``sliding_window`` tokens only.
    ``biases`` names the matrices that have one: qkv, o, mlp, experts, norm, head.
    ``stored`` is the content of a file as pairs of tensor type and bytes; empty if no file was read.
    ``attention_layers`` have the attention that heads and widths describe; None: all but the linear ones.
    ``caches`` replace the cache that follows from the heads.
    ``note`` says what the answer leaves out or approximates.
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
    attention_layers: int | None = None
    caches: tuple[LayerCache, ...] = ()
    extra_matrices: tuple[ExtraMatrix, ...] = ()
    state_bytes: float = (
        0.0  # what layers without keys and values keep of a sequence; 0: as linear attention does
    )
    quantization: StoredQuantization | None = (
        None  # how the published model stores its weights; None: in 16 bits
    )
    vision_parameters: float = 0.0  # of image and audio towers with their projectors
    note: str = ""

    @property
    def dense_layer_count(self) -> int:
        """Return how many layers have one feed-forward block for all tokens."""
        return self.experts.dense_layers if self.experts else self.layers

    @property
    def is_encoder(self) -> bool:
        """True if the model reads a document and generates no tokens: no layer keeps a cache."""
        return bool(self.caches) and not any(each.layers for each in self.caches)

    @property
    def attention_layer_count(self) -> int:
        """Return how many layers keep keys and values."""
        if self.attention_layers is not None:
            return self.attention_layers
        return self.layers - (self.linear.layers if self.linear else 0)
