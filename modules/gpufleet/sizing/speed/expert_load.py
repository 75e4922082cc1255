"""Routed experts: which of them a batch touches, how uneven the load of expert-parallel ranks is, and their time."""

from __future__ import annotations

from math import log, sqrt

from gpufleet.sizing.speed import operation_count
from gpufleet.sizing.speed.replica import MAX_SHARE, REFERENCE_FLOPS, Replica


def expert_seconds(replica: Replica, tokens: float) -> tuple[float, float]:
    """Return the seconds of reading and of computing with the routed experts of the busiest rank in a decode step."""
    if not replica.expert_layer_count:
        return 0.0, 0.0
    read = read_share(replica, tokens) * operation_count.routed_weight_bytes(
        replica.model, replica.weight_precision
    )
    rate = replica.effective_weight_bytes_per_s * replica.capped_efficiency_factor("expert_bandwidth")
    if replica.device_peak_flops is None:
        return read / rate, 0.0
    nominal = replica.device_peak_flops
    law = replica.saturation_factor("compute_law", nominal, REFERENCE_FLOPS)
    share = min(replica.efficiency_factor("decode_compute") * law, MAX_SHARE)
    operations = tokens * operation_count.routed_operations_per_token(replica.model)
    busiest = (
        operations * (load_imbalance(replica, tokens) + tile_waste(replica, tokens)) / replica.stage_devices
    )
    return read / rate, busiest / (nominal * share)


def read_share(replica: Replica, tokens: float) -> float:
    """Return the share of all routed weights that the busiest device reads in a step over so many tokens.

    Each rank of expert parallelism holds some experts whole; a token misses one with probability 1 - chosen / count.
    The busiest of several ranks touches more than the average: by the expected maximum of normal deviates.
    """
    experts = replica.model.experts
    if experts is None:
        return 0.0
    ranks = max(1, replica.layout.expert)
    held = experts.count / ranks
    touched_probability: float = 1.0 - (1.0 - experts.per_token / experts.count) ** max(tokens, 0.0)
    touched = held * touched_probability
    if ranks > 1:
        touched = min(
            held,
            experts.per_token * tokens,
            touched + expected_maximum(ranks) * sqrt(touched * (1.0 - touched_probability)),
        )
    return touched / experts.count * ranks / replica.stage_devices


def load_imbalance(replica: Replica, tokens: float) -> float:
    """Return the tokens of the busiest rank over those of the average one: expected maximum of random routing."""
    experts, ranks = replica.model.experts, replica.layout.expert
    if experts is None or ranks <= 1:
        return 1.0
    mean = max(tokens * experts.per_token / ranks, 1e-9)
    return min(float(ranks), 1.0 + expected_maximum(ranks) / sqrt(mean))


def expected_maximum(count: int) -> float:
    """Return about the expected maximum of so many normal deviates: 0.56 of two, 1.4 of eight, 2.3 of 72."""
    return max(sqrt(2.0 * log(count)) - 0.6, 0.0)


def tile_waste(replica: Replica, tokens: float) -> float:
    """Return the padding of grouped matrix products: rows of incomplete tiles over the rows that count.

    Each touched expert computes in tiles of rows; half of one is empty on average.
    """
    experts = replica.model.experts
    if experts is None:
        return 0.0
    missed: float = (1.0 - experts.per_token / experts.count) ** max(tokens, 0.0)
    touched = experts.count * (1.0 - missed)
    return touched * replica.efficiency_factor("expert_tile") / max(tokens * experts.per_token, 1e-9)
