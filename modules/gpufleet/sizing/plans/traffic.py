"""Streams and requests per second that a replica can serve within its targets."""

from __future__ import annotations

from gpufleet.sizing.plans.placement import Placement
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.result import SizingPlan
from gpufleet.sizing.speed import SpeedEstimate
from gpufleet.sizing.speed.capacity import MAX_ENCODER_STREAMS
from gpufleet.sizing.speed.device import find_calibrated_engine, is_server_engine

FIRST_STREAMS = 1024  # the first upper bound of a search, doubled while it fits
MAX_STREAMS = 1_000_000  # the largest --batch
SLACK = 1e-6  # relative tolerance for rounding


def with_most_streams(request: SizingRequest, placement: Placement) -> Placement:
    """Return the placement with the most streams that memory, targets and users allow, at least one.

    An encoder keeps no cache: more documents in a batch than the speed model's bound gain nothing.
    The remaining share of the tightest bound falls almost linearly with the streams, so the search is a regula falsi
    (Illinois variant), exact below 200 streams and to one per cent above.
    """
    most = request.users or MAX_STREAMS
    if placement.workload.model.is_encoder:
        most = min(most, int(MAX_ENCODER_STREAMS))
    low, high = 1, min(FIRST_STREAMS, most)
    best, trial = placement.with_batch(low), placement.with_batch(high)
    above, below = _remaining_share(request, best), _remaining_share(request, trial)
    while below >= 0:
        if high == most:
            return trial
        best, low, above, high = trial, high, below, min(2 * high, most)
        trial = placement.with_batch(high)
        below = _remaining_share(request, trial)
    while above >= 0 and high - low > _search_tolerance(low):
        share = round((high - low) * above / (above - below))
        trial = placement.with_batch(low + max(1, min(high - low - 1, share)))
        left = _remaining_share(request, trial)
        if left >= 0:
            best, low, above, below = trial, trial.workload.batch, left, below / 2
        else:
            high, above, below = trial.workload.batch, above / 2, left
    return best


def _remaining_share(request: SizingRequest, placement: Placement) -> float:
    """Return the remaining share of the tightest bound, negative if it is exceeded."""
    available, needed = placement.memory.available_gib, placement.memory.per_device_gib
    if not placement.fits_in_memory:
        return min(-1e-9, (available - needed) / max(available, 1e-9))
    speed = placement.predict_speed()
    if not speed.per_stream:
        return -1.0
    work, seconds_per_token = placement.workload, 1 / speed.per_stream
    request_s = (
        seconds_per_token
        if work.model.is_encoder
        else (speed.time_to_first_token_s or 0.0) + work.output_tokens * seconds_per_token
    )
    user_s = work.batch / (speed.tokens_per_s or 1.0)
    bounds = (
        (needed, available),
        (seconds_per_token, request.tpot_s),
        (request_s, request.latency_s),
        (user_s, 1 / request.tokens_per_user if request.tokens_per_user else None),
    )
    return min((limit - value) / limit for value, limit in bounds if limit)


def _search_tolerance(streams: int) -> int:
    """Return the width of the search interval at which the search stops."""
    return max(1, streams // 100)


def meets_latency_targets(request: SizingRequest, plan: SizingPlan) -> bool:
    """Return whether a plan reaches the requested latency targets."""
    first, stream, request_s = (
        plan.time_to_first_token_s,
        plan.tokens_per_s_per_stream,
        plan.request_duration_s,
    )
    if (
        request.ttft_s is not None
        and (time_to_first_token_s_without_queue(plan) or first or float("inf")) > request.ttft_s
    ):
        return False
    if request.tpot_s is not None and (not stream or 1 / stream > request.tpot_s):
        return False
    if request.tokens_per_user and (plan.tokens_per_s_per_user or 0.0) < request.tokens_per_user * (
        1 - SLACK
    ):
        return False
    return request.latency_s is None or (request_s is not None and request_s <= request.latency_s)


def time_to_first_token_s_without_queue(plan: SizingPlan) -> float | None:
    """Return seconds to the first token of a prompt without a queue."""
    rate, stream = plan.prompt_tokens_per_s, plan.tokens_per_s_per_stream
    return plan.workload.input_tokens / rate + 1 / stream if rate and stream else None


def replica_requests_per_s(placement: Placement, speed: SpeedEstimate) -> float | None:
    """Return the requests per second that one replica can complete, None for training or unknown speed."""
    workload = placement.workload
    if workload.is_training or not speed.tokens_per_s:
        return None
    if workload.model.is_encoder:
        return speed.tokens_per_s
    seconds = workload.output_tokens / speed.tokens_per_s
    nodes, accelerator = placement.layout.nodes, placement.hardware.accelerator
    if not is_server_engine(
        find_calibrated_engine(workload.engine, accelerator, training=False, nodes=nodes)
    ):
        rate = speed.prompt_tokens_per_s  # a server's rate already includes prompt time
        seconds += workload.input_tokens / rate if rate else 0.0
    return 1 / seconds if seconds else None
