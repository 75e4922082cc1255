"""What a language model is made of, as far as memory and speed depend on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Experts:
    """The mixture-of-experts layers of a model; its other layers are dense."""

    count: int
    per_token: int
    shared: int  # experts that every token passes
    intermediate: int  # width of one expert
    dense_layers: int = 0  # leading layers without experts


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek): what is kept per token is one compressed vector, not heads."""

    kv_rank: int
    rope_dim: int
    q_rank: int  # 0: queries are not compressed
    value_dim: int
    nope_dim: int


@dataclass(frozen=True)
class Architecture:
    """One model. ``parameters`` counts all weights, ``active_parameters`` those that one token meets.

    ``sliding_layers`` of ``layers`` attend to the last ``sliding_window`` tokens only.
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
    experts: Experts | None = None
    latent: LatentAttention | None = None
    sliding_window: int = 0
    sliding_layers: int = 0
    gated: bool = True  # three matrices in the feed-forward block (SwiGLU, GeGLU), else two
    source: str = ""
    as_of: str = ""
