"""Weights counted from an architecture, by the kind of tensor: formats treat the kinds differently."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpufleet.catalog.architecture import Architecture


@dataclass(frozen=True)
class Matrix:
    """Tensors of one kind and shape: ``rows`` outputs by ``columns`` inputs, ``count`` of them per layer."""

    kind: str  # embedding, output, q, k, v, o, gate, up, down, router, latent, linear, or small
    rows: int
    columns: int
    count: int = 1
    layers: int = 1
    routed: bool = False  # one expert among several: a token meets some of them

    @property
    def elements(self) -> float:
        """Return the number of weights in all of them."""
        return float(self.rows) * self.columns * self.count * self.layers


def matrices(model: Architecture) -> list[Matrix]:
    """Return every weight of the model as groups of equal tensors."""
    found = [Matrix("embedding", model.vocabulary, model.hidden)]
    if not model.tied_embeddings:
        found.append(Matrix("output", model.vocabulary, model.hidden))
    if model.positions:
        found.append(Matrix("embedding", model.positions, model.hidden))
    return [*found, *_attention(model), *_linear(model), *_feed_forward(model), *_small(model)]


def counted(model: Architecture) -> Architecture:
    """Return the model with both parameter counts computed from its shape."""
    return replace(model, parameters=total(model), active_parameters=active(model))


def total(model: Architecture) -> float:
    """Return all weights of the model."""
    return sum(matrix.elements for matrix in matrices(model))


def active(model: Architecture) -> float:
    """Return the weights that one token meets: of the experts only those it is sent to."""
    share = model.experts.per_token / model.experts.count if model.experts else 1.0
    return sum(m.elements * (share if m.routed else 1.0) for m in matrices(model))


def _attention(model: Architecture) -> list[Matrix]:
    if model.latent:
        return _latent(model)
    layers = model.attention_layers
    queries = model.heads * model.head_dim
    keys = model.kv_heads * model.head_dim
    return [
        Matrix("q", queries * (2 if model.query_gate else 1), model.hidden, layers=layers),
        Matrix("k", keys, model.hidden, layers=layers),
        Matrix("v", keys, model.hidden, layers=layers),
        Matrix("o", model.hidden, queries, layers=layers),
    ]


def _latent(model: Architecture) -> list[Matrix]:
    assert model.latent is not None  # noqa: S101 - the caller looked; mypy cannot
    kept, layers = model.latent, model.layers
    width = model.heads * (kept.nope_dim + kept.rope_dim)
    queries = (
        [
            Matrix("q", kept.q_rank, model.hidden, layers=layers),
            Matrix("q", width, kept.q_rank, layers=layers),
        ]
        if kept.q_rank
        else [Matrix("q", width, model.hidden, layers=layers)]
    )
    return [
        *queries,
        Matrix("latent", kept.kv_rank + kept.rope_dim, model.hidden, layers=layers),
        Matrix("latent", model.heads * kept.nope_dim, kept.kv_rank, layers=layers),
        Matrix("v", model.heads * kept.value_dim, kept.kv_rank, layers=layers),
        Matrix("o", model.hidden, model.heads * kept.value_dim, layers=layers),
    ]


def _linear(model: Architecture) -> list[Matrix]:
    if not model.linear:
        return []
    kept, layers = model.linear, model.linear.layers
    keys, values = kept.key_heads * kept.key_dim, kept.value_heads * kept.value_dim
    return [
        Matrix("linear", 2 * keys + 2 * values, model.hidden, layers=layers),
        Matrix("linear", 2 * kept.value_heads, model.hidden, layers=layers),
        Matrix("small", 2 * keys + values, kept.convolution, layers=layers),
        Matrix("o", model.hidden, values, layers=layers),
    ]


def _feed_forward(model: Architecture) -> list[Matrix]:
    found = _block(model, model.intermediate, 1, model.dense_layers)
    experts = model.experts
    if experts is None:
        return found
    layers = model.layers - experts.dense_layers
    found += _block(model, experts.intermediate, experts.count, layers, routed=True)
    if experts.shared:
        width = experts.shared_intermediate or experts.intermediate
        found += _block(model, width, experts.shared, layers)
    return [*found, Matrix("router", experts.count, model.hidden, layers=layers)]


def _block(model: Architecture, width: int, count: int, layers: int, *, routed: bool = False) -> list[Matrix]:
    if not layers or not width:
        return []
    kinds = ["gate", "up"] if model.gated else ["up"]
    found = [Matrix(kind, width, model.hidden, count, layers, routed) for kind in kinds]
    return [*found, Matrix("down", model.hidden, width, count, layers, routed)]


def _small(model: Architecture) -> list[Matrix]:
    """Norms and biases: always kept in 16 or 32 bits, below a thousandth of the whole."""
    norm = 2 if "norm" in model.biases else 1
    found = [
        Matrix("small", model.hidden, norm, model.norms, model.layers),
        Matrix("small", model.hidden, norm),
    ]
    if model.qk_norm:
        found.append(Matrix("small", model.qk_norm, 2, layers=model.attention_layers))
    if model.latent:
        found.append(Matrix("small", model.latent.kv_rank + model.latent.q_rank, 1, layers=model.layers))
    return found + [
        Matrix("small", rows, 1, count, layers, routed) for rows, count, layers, routed in _biases(model)
    ]


def _biases(model: Architecture) -> list[tuple[int, int, int, bool]]:
    found: list[tuple[int, int, int, bool]] = []
    widths = 2 if model.gated else 1
    if "qkv" in model.biases:
        found.append(((model.heads + 2 * model.kv_heads) * model.head_dim, 1, model.attention_layers, False))
    if "o" in model.biases:
        found.append((model.hidden, 1, model.attention_layers, False))
    if "mlp" in model.biases:
        found.append((model.hidden + widths * model.intermediate, 1, model.dense_layers, False))
    if "experts" in model.biases and model.experts:
        layers = model.layers - model.experts.dense_layers
        found.append((model.hidden + widths * model.experts.intermediate, model.experts.count, layers, True))
        found.append((model.experts.count, 1, layers, False))
    if "head" in model.biases:
        found.append((model.vocabulary, 1, 1, False))
    return found
