"""Count the weights of an architecture by kind of tensor: formats store the kinds differently."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.catalog.architecture import ModelArchitecture
from gpufleet.quick_dataclass import dataclass


@dataclass(frozen=True)
class WeightMatrixGroup:
    """Tensors of one kind and shape: ``rows`` outputs by ``columns`` inputs, ``count`` of them per layer."""

    kind: str  # embedding, output, q, k, v, o, gate, up, down, router, latent, linear, vision, or small
    rows: int
    columns: int
    count: int = 1
    layers: int = 1
    routed: bool = False  # one expert of several: a token uses some of them
    shared: bool = False  # an expert that every token passes

    @property
    def element_count(self) -> float:
        """Return the number of weights in all of them."""
        return float(self.rows) * self.columns * self.count * self.layers

    @property
    def tensor_name(self) -> str:
        """Return the kind, with the part of the layer for feed-forward matrices: "q", "routed gate"."""
        if self.kind not in {"gate", "up", "down"}:
            return self.kind
        return f"{'routed' if self.routed else 'shared' if self.shared else 'dense'} {self.kind}"


def list_weight_matrices(model: ModelArchitecture) -> list[WeightMatrixGroup]:
    """Return all weights of the model as groups of equal tensors."""
    embeddings = [WeightMatrixGroup("embedding", model.vocabulary, model.hidden)]
    if not model.tied_embeddings:
        embeddings.append(WeightMatrixGroup("output", model.vocabulary, model.hidden))
    if model.positions:
        embeddings.append(WeightMatrixGroup("embedding", model.positions, model.hidden))
    return [
        *embeddings,
        *_attention_matrices(model),
        *_linear_matrices(model),
        *_feed_forward_matrices(model),
        *_small_matrices(model),
        *(
            WeightMatrixGroup(part.kind.split()[-1], part.rows, part.columns, layers=part.layers)
            for part in model.extra_matrices
            if part.layers
        ),
        *([WeightMatrixGroup("vision", int(model.vision_parameters), 1)] if model.vision_parameters else []),
    ]


def with_parameter_counts(model: ModelArchitecture) -> ModelArchitecture:
    """Return the model with both parameter counts computed from its shape."""
    return replace(
        model, parameters=count_parameters(model), active_parameters=count_active_parameters(model)
    )


def count_parameters(model: ModelArchitecture) -> float:
    """Return the number of all weights of the model."""
    return sum(matrix.element_count for matrix in list_weight_matrices(model))


def count_active_parameters(model: ModelArchitecture) -> float:
    """Return the number of weights that one text token uses: the experts that it is routed to, no vision tower."""
    share = model.experts.per_token / model.experts.count if model.experts else 1.0
    return sum(
        m.element_count * (share if m.routed else 1.0)
        for m in list_weight_matrices(model)
        if m.kind != "vision"
    )


def _attention_matrices(model: ModelArchitecture) -> list[WeightMatrixGroup]:
    if model.latent:
        return _latent_matrices(model)
    layers = model.attention_layer_count
    if not layers:
        return []
    queries = model.heads * model.head_dim
    keys = model.kv_heads * model.head_dim
    return [
        WeightMatrixGroup("q", queries * (2 if model.query_gate else 1), model.hidden, layers=layers),
        WeightMatrixGroup("k", keys, model.hidden, layers=layers),
        WeightMatrixGroup("v", keys, model.hidden, layers=layers),
        WeightMatrixGroup("o", model.hidden, queries, layers=layers),
    ]


def _latent_matrices(model: ModelArchitecture) -> list[WeightMatrixGroup]:
    assert model.latent is not None  # noqa: S101 - the caller looked; mypy cannot
    attention, layers = model.latent, model.layers
    width = model.heads * (attention.nope_dim + attention.rope_dim)
    queries = (
        [
            WeightMatrixGroup("q", attention.q_rank, model.hidden, layers=layers),
            WeightMatrixGroup("q", width, attention.q_rank, layers=layers),
        ]
        if attention.q_rank
        else [WeightMatrixGroup("q", width, model.hidden, layers=layers)]
    )
    return [
        *queries,
        WeightMatrixGroup("latent", attention.kv_rank + attention.rope_dim, model.hidden, layers=layers),
        WeightMatrixGroup("latent", model.heads * attention.nope_dim, attention.kv_rank, layers=layers),
        WeightMatrixGroup("v", model.heads * attention.value_dim, attention.kv_rank, layers=layers),
        WeightMatrixGroup("o", model.hidden, model.heads * attention.value_dim, layers=layers),
    ]


def _linear_matrices(model: ModelArchitecture) -> list[WeightMatrixGroup]:
    if not model.linear:
        return []
    attention, layers = model.linear, model.linear.layers
    keys, values = attention.key_heads * attention.key_dim, attention.value_heads * attention.value_dim
    return [
        WeightMatrixGroup("linear", 2 * keys + 2 * values, model.hidden, layers=layers),
        WeightMatrixGroup("linear", 2 * attention.value_heads, model.hidden, layers=layers),
        WeightMatrixGroup("small", 2 * keys + values, attention.convolution, layers=layers),
        WeightMatrixGroup("o", model.hidden, values, layers=layers),
    ]


def _feed_forward_matrices(model: ModelArchitecture) -> list[WeightMatrixGroup]:
    groups = _block_matrices(model, model.intermediate, 1, model.dense_layer_count)
    experts = model.experts
    if experts is None:
        return groups
    layers = model.layers - experts.dense_layers
    groups += _block_matrices(
        model, experts.intermediate, experts.count, layers, routed=True, inputs=experts.latent
    )
    if experts.latent:
        groups += [
            WeightMatrixGroup("up", experts.latent, model.hidden, layers=layers),
            WeightMatrixGroup("down", model.hidden, experts.latent, layers=layers),
        ]
    if experts.shared:
        width = experts.shared_intermediate or experts.intermediate
        groups += _block_matrices(model, width, experts.shared, layers, shared=True)
    return [*groups, WeightMatrixGroup("router", experts.count, model.hidden, layers=layers)]


def _block_matrices(
    model: ModelArchitecture,
    width: int,
    count: int,
    layers: int,
    *,
    routed: bool = False,
    shared: bool = False,
    inputs: int = 0,
) -> list[WeightMatrixGroup]:
    """Return the matrices of feed-forward blocks; ``inputs`` is their input width, 0: the model's."""
    if not layers or not width:
        return []
    kinds, inputs = ["gate", "up"] if model.gated else ["up"], inputs or model.hidden
    return [
        *(WeightMatrixGroup(kind, width, inputs, count, layers, routed, shared) for kind in kinds),
        WeightMatrixGroup("down", inputs, width, count, layers, routed, shared),
    ]


def _small_matrices(model: ModelArchitecture) -> list[WeightMatrixGroup]:
    """Return norms and biases: always stored in 16 or 32 bits, less than 0.1 % of all weights."""
    norm = 2 if "norm" in model.biases else 1
    norms = [
        WeightMatrixGroup("small", model.hidden, norm, model.norms, model.layers),
        WeightMatrixGroup("small", model.hidden, norm),
    ]
    if model.qk_norm:
        norms.append(WeightMatrixGroup("small", model.qk_norm, 2, layers=model.attention_layer_count))
    if model.latent:
        norms.append(
            WeightMatrixGroup("small", model.latent.kv_rank + model.latent.q_rank, 1, layers=model.layers)
        )
    return norms + [
        WeightMatrixGroup("small", rows, 1, count, layers, routed)
        for rows, count, layers, routed in _bias_shapes(model)
    ]


def _bias_shapes(model: ModelArchitecture) -> list[tuple[int, int, int, bool]]:
    shapes: list[tuple[int, int, int, bool]] = []
    widths = 2 if model.gated else 1
    if "qkv" in model.biases:
        shapes.append(
            ((model.heads + 2 * model.kv_heads) * model.head_dim, 1, model.attention_layer_count, False)
        )
    if "o" in model.biases:
        shapes.append((model.hidden, 1, model.attention_layer_count, False))
    if "mlp" in model.biases:
        shapes.append((model.hidden + widths * model.intermediate, 1, model.dense_layer_count, False))
    if "experts" in model.biases and model.experts:
        layers = model.layers - model.experts.dense_layers
        shapes.append((model.hidden + widths * model.experts.intermediate, model.experts.count, layers, True))
        shapes.append((model.experts.count, 1, layers, False))
    if "head" in model.biases:
        shapes.append((model.vocabulary, 1, 1, False))
    return shapes
