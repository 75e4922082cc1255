"""Candidate plans on one kind of hardware: replica size and count for traffic, for work, or for one node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.model_engine import choose_model_engine
from gpufleet.sizing.parallelism import build_requested_layout, count_nodes_for_devices
from gpufleet.sizing.plans.placement import (
    MAX_NODES,
    Placement,
    find_smallest_placement,
    list_sharded_workloads,
    place_workload_on_devices,
    place_workload_on_layout,
    with_engine,
)
from gpufleet.sizing.plans.request import SizingRequest
from gpufleet.sizing.plans.result import SECONDS_PER_HOUR, SizingPlan
from gpufleet.sizing.plans.traffic import meets_latency_targets, replica_requests_per_s, with_most_streams
from gpufleet.sizing.plans.training_search import find_fastest_training_placement, max_training_tokens_per_s
from gpufleet.sizing.speed import estimate_speed

MAX_SCALING_STEPS = 6


def list_candidate_plans(request: SizingRequest, hardware: Hardware) -> Iterator[SizingPlan]:
    """Yield candidate plans on that hardware; none if the model does not fit or targets cannot be met."""
    if request.requests_per_s or request.users:
        yield from _traffic_plans(request, hardware)
        return
    least = find_smallest_placement(request.workload, hardware)
    if least is None:
        return
    if request.workload.is_training:
        yield _plan_training(request, hardware, least)
        return
    for placement in _replica_variants(request, hardware, least):
        plan = _fill_paid_nodes(request, hardware, placement)
        if meets_latency_targets(request, plan):
            yield plan


def build_plan_on_devices(request: SizingRequest, hardware: Hardware, devices: int) -> SizingPlan:
    """Return the plan on exactly so many devices, even if it does not fit."""
    workload = request.workload
    if request.sizes.is_given:
        placement = _requested_placement(request, hardware)
        if workload.is_training:
            return _build_plan(
                request, placement, replicas=devices // placement.layout.devices, devices=devices
            )
        return _plan_replicas(request, _fill_streams(request, placement), devices)
    if workload.is_training:
        best = find_fastest_training_placement(
            workload, hardware, devices, can_choose_batch=request.can_choose_batch
        )
        return _build_plan(request, best, devices=devices)
    candidates = [
        _plan_replicas(request, placement, devices)
        for placement in _replica_placements(request, hardware, devices)
    ]
    if request.users:
        candidates = [_share_users(request, plan) for plan in candidates]
        return max(candidates, key=lambda plan: _user_key(request, plan))
    if request.needs_many_streams:
        return max(candidates, key=lambda plan: (plan.is_feasible, plan.tokens_per_s or 0.0))
    return next((plan for plan in candidates if plan.is_feasible), candidates[0])


def _requested_placement(request: SizingRequest, hardware: Hardware) -> Placement:
    """Return the placement of the layout that the request fixes."""
    devices = request.sizes.devices
    engine = choose_model_engine(hardware, request.workload, count_nodes_for_devices(hardware, devices))
    workload = with_engine(request.workload, engine.name)
    layout = build_requested_layout(workload, hardware, engine, request.sizes)
    # Training chooses its sharding by itself: the first that fits.
    placements = (
        place_workload_on_layout(variant, hardware, layout, engine)
        for variant in list_sharded_workloads(workload, layout.devices)
    )
    first = next(placements)
    return first if first.fits_in_memory else next(placements, first)


def _replica_placements(request: SizingRequest, hardware: Hardware, devices: int) -> Iterator[Placement]:
    """Yield replica placements that divide the devices: within a node first, over several nodes only if needed."""
    per_node = hardware.devices_per_node
    placement = place_workload_on_devices(request.workload, hardware, devices)
    has_divisible_heads = placement.engine.rule == "heads"
    if devices <= per_node or not has_divisible_heads:
        yield _fill_streams(request, placement)
    else:
        for nodes in range(1, devices // per_node + 1):
            if devices % (nodes * per_node) == 0:
                yield _fill_streams(
                    request, place_workload_on_devices(request.workload, hardware, nodes * per_node)
                )
        yield _fill_streams(request, placement)
    if (request.needs_max_streams or request.users) and has_divisible_heads:
        smaller = (size for size in (1, 2, 4) if size < min(devices, per_node) and devices % size == 0)
        for size in smaller:
            placement = place_workload_on_devices(request.workload, hardware, size)
            if placement.fits_in_memory:
                yield _fill_streams(request, placement)
        if shared := _shared_experts_placement(placement, hardware, devices):
            yield _fill_streams(request, shared)


def _shared_experts_placement(placement: Placement, hardware: Hardware, devices: int) -> Placement | None:
    """Return attention data parallelism over all devices of a node, which share the experts; None without experts.

    Many streams of a mixture are served so (SGLang, vLLM and TensorRT-LLM document it): the cache is not copied.
    """
    experts = placement.workload.model.experts
    if experts is None or devices == 1 or devices > hardware.devices_per_node or experts.count % devices:
        return None
    layout = ParallelLayout(devices=devices, data=devices, expert=devices)
    shared = place_workload_on_layout(placement.workload, hardware, layout, placement.engine)
    return shared if shared.fits_in_memory else None


def _fill_streams(request: SizingRequest, placement: Placement) -> Placement:
    return with_most_streams(request, placement) if request.needs_many_streams or request.users else placement


def _plan_replicas(request: SizingRequest, placement: Placement, devices: int) -> SizingPlan:
    replicas = max(1, devices // placement.layout.devices) if placement.layout.devices * 2 <= devices else 1
    if placement.engine.rule == "powers":
        replicas = 1
    return _build_plan(request, placement, replicas=replicas, devices=devices)


def _replica_variants(request: SizingRequest, hardware: Hardware, least: Placement) -> Iterator[Placement]:
    """Yield the smallest replica, and one over a full node, because all devices of a node are paid for."""
    yield _fill_streams(request, least)
    per_node = hardware.devices_per_node
    if hardware.origin != "accelerator" and least.layout.devices < per_node:
        full_node = place_workload_on_devices(request.workload, hardware, per_node)
        if full_node.fits_in_memory and full_node.layout.tensor > 1:
            yield _fill_streams(request, full_node)


def _fill_paid_nodes(request: SizingRequest, hardware: Hardware, placement: Placement) -> SizingPlan:
    """Return the plan with as many replicas as fit on the paid nodes."""
    size, per_node = placement.layout.devices, hardware.devices_per_node
    replicas = per_node // size if hardware.origin != "accelerator" and size < per_node else 1
    return _build_plan(request, placement, replicas=replicas)


def _traffic_plans(request: SizingRequest, hardware: Hardware) -> Iterator[SizingPlan]:
    least = find_smallest_placement(request.workload, hardware)
    if least is None:
        return
    size, fewest = least.layout.devices, None
    while size <= max(hardware.devices_per_node, least.layout.devices):
        placement = (
            least
            if size == least.layout.devices
            else place_workload_on_devices(request.workload, hardware, size)
        )
        plan = (
            _build_plan(request, with_most_streams(request, placement)) if placement.fits_in_memory else None
        )
        if plan is not None and meets_latency_targets(request, plan) and plan.requests_per_s:
            scaled = next((_scale_to_users if request.users else _scale_to_traffic)(request, plan), None)
            if scaled is not None:
                if fewest is not None and scaled.devices >= fewest:
                    return  # a still larger replica communicates more
                fewest = scaled.devices
                yield scaled
        size *= 2


def _scale_to_traffic(request: SizingRequest, plan: SizingPlan) -> Iterator[SizingPlan]:
    """Yield the plan with enough replicas for the traffic, if there are enough nodes."""
    target_rate, hardware = request.requests_per_s or 0.0, plan.hardware
    replicas = ceil(target_rate / (plan.requests_per_s or 1.0) - 1e-9)
    size, per_node = plan.layout.devices, hardware.devices_per_node
    nodes = ceil(replicas / (per_node // size)) if size < per_node else replicas * plan.layout.nodes
    if hardware.node_limit is None or nodes <= hardware.node_limit:
        served = target_rate * max(request.workload.output_tokens, 1)  # of an encoder: documents
        yield replace(
            plan, replicas=replicas, devices=replicas * size, nodes=nodes, served_tokens_per_s=served
        )


def _scale_to_users(request: SizingRequest, plan: SizingPlan) -> Iterator[SizingPlan]:
    """Yield the plan with enough replicas for the users, if there are enough nodes; paid devices share the users."""
    users, hardware = request.users or 1, plan.hardware
    replicas = ceil(users / plan.workload.batch)
    size, per_node = plan.layout.devices, hardware.devices_per_node
    nodes = ceil(replicas / (per_node // size)) if size < per_node else replicas * plan.layout.nodes
    if hardware.node_limit is not None and nodes > hardware.node_limit:
        return
    if size < per_node and hardware.origin != "accelerator":
        replicas = min(users, nodes * (per_node // size))
    devices = replicas * size
    yield _share_users(request, replace(plan, replicas=replicas, devices=devices, nodes=nodes))


def _share_users(request: SizingRequest, plan: SizingPlan) -> SizingPlan:
    """Return the plan with the users spread evenly over its replicas, as many as memory holds."""
    batch = min(ceil((request.users or 1) / plan.replicas), plan.workload.batch)
    placement = place_workload_on_layout(
        replace(plan.workload, batch=batch), plan.hardware, plan.layout, plan.engine
    )
    speed = placement.predict_speed()
    return replace(
        plan,
        workload=placement.workload,
        memory=placement.memory,
        speed=speed,
        users=request.users,
        requests_per_s=replica_requests_per_s(placement, speed),
    )


def _user_key(request: SizingRequest, plan: SizingPlan) -> tuple[bool, int, float]:
    """Return the order of plans for users: one that runs, for as many as there are, each as fast as possible."""
    return plan.is_feasible, min(plan.streams, request.users or 1), plan.tokens_per_s_per_user or 0.0


def _plan_training(request: SizingRequest, hardware: Hardware, least: Placement) -> SizingPlan:
    """Return the training plan on the fewest nodes that meet the deadline, or that fit without a deadline.

    More nodes leave memory for a larger micro-batch, with which fewer nodes may suffice: the search approaches the
    number from both sides.
    """
    fewest, most = count_nodes_for_devices(hardware, least.layout.devices), hardware.node_limit or MAX_NODES
    first = min(max(fewest, _min_nodes_for_deadline(request, hardware)), most)
    plan = _plan_fastest_training(
        request, hardware, least.layout.devices if first == fewest else first * hardware.devices_per_node
    )
    tried, best = {first, plan.nodes}, None
    for _ in range(MAX_SCALING_STEPS):
        hours, deadline = plan.work_hours, request.deadline_h
        if not hours or not deadline:
            break
        late = hours > deadline
        if plan.is_feasible and not late and (best is None or plan.nodes < best.nodes):
            best = plan
        needed_nodes = max(ceil(plan.nodes * hours / deadline), plan.nodes + 1 if late else fewest)
        nodes = min(needed_nodes, most)
        if nodes in tried or nodes < fewest:
            break
        tried.add(nodes)
        plan = _plan_fastest_training(request, hardware, nodes * hardware.devices_per_node)
    return best or plan


def _min_nodes_for_deadline(request: SizingRequest, hardware: Hardware) -> int:
    """Return a lower bound of nodes for the deadline: devices that only compute, without communication."""
    if not request.tokens or not request.deadline_h:
        return 1
    tokens_per_s = max_training_tokens_per_s(
        request.workload, hardware, ParallelLayout(), can_choose_batch=request.can_choose_batch
    )
    if not tokens_per_s:
        return 1
    per_node = tokens_per_s * hardware.devices_per_node * request.deadline_h * SECONDS_PER_HOUR
    return max(1, ceil(request.tokens / per_node))


def _plan_fastest_training(request: SizingRequest, hardware: Hardware, devices: int) -> SizingPlan:
    """Return the plan of the fastest training on so many devices."""
    placement = find_fastest_training_placement(
        request.workload, hardware, devices, can_choose_batch=request.can_choose_batch, quick=True
    )
    return _build_plan(request, placement)


def _build_plan(
    request: SizingRequest, placement: Placement, *, replicas: int = 1, devices: int | None = None
) -> SizingPlan:
    hardware, layout = placement.hardware, placement.layout
    device_count = devices or layout.devices * replicas
    has_total_context_only = request.has_total_context_only and not placement.workload.is_training
    prompt = (
        replace(placement.workload, input_tokens=placement.workload.context_tokens, output_tokens=0)
        if has_total_context_only
        else None
    )
    speed = placement.predict_speed()
    return SizingPlan(
        hardware=hardware,
        workload=placement.workload,
        layout=layout,
        replicas=replicas,
        devices=device_count,
        nodes=count_nodes_for_devices(hardware, device_count),
        memory=placement.memory,
        speed=speed,
        engine=placement.engine,
        tokens=request.tokens,
        latency_s=request.latency_s,
        requests_per_s=replica_requests_per_s(placement, speed),
        full_prompt_tokens_per_s=estimate_speed(prompt, layout, hardware).prompt_tokens_per_s
        if prompt
        else None,
    )
