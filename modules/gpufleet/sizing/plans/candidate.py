"""Plans of one kind of hardware: how many replicas of which size, for traffic, for work, or for themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.model_engine import engine_on
from gpufleet.sizing.parallelism import nodes_for
from gpufleet.sizing.plans.placement import MOST_NODES, Placed, place, smallest
from gpufleet.sizing.plans.request import Question
from gpufleet.sizing.plans.result import SECONDS_PER_HOUR, Plan
from gpufleet.sizing.plans.traffic import busiest, meets, requests_per_s
from gpufleet.sizing.plans.training_search import ceiling, fastest
from gpufleet.sizing.speed import speed

MOST_SCALINGS = 6


def chosen(question: Question, hardware: Hardware) -> Iterator[Plan]:
    """Yield the plans worth a look on that hardware; none where nothing fits or targets can't be met."""
    if question.requests_per_s:
        yield from _for_traffic(question, hardware)
        return
    least = smallest(question.workload, hardware)
    if least is None:
        return
    if question.workload.trains:
        yield _for_work(question, hardware, least)
        return
    for placed in _variants(question, hardware, least):
        plan = _filled(question, hardware, placed)
        if meets(question, plan):
            yield plan


def exactly(question: Question, hardware: Hardware, devices: int) -> Plan:
    """Return the one plan on so many devices, whether it fits or not."""
    workload = question.workload
    if workload.trains:
        best = fastest(workload, hardware, devices, open_batch=question.open_batch)
        return _plan(question, best, devices=devices)
    candidates = [_shared_out(question, placed, devices) for placed in _replicas(question, hardware, devices)]
    if question.most_streams or question.requests_per_s:
        return max(candidates, key=lambda plan: (plan.fits, plan.tokens_per_s or 0.0))
    return next((plan for plan in candidates if plan.fits), candidates[0])


def _replicas(question: Question, hardware: Hardware, devices: int) -> Iterator[Placed]:
    """Yield replicas that share out the devices: over all of a node, over nodes only as far as it must be."""
    per_node = hardware.devices_per_node
    runs_on = engine_on(hardware, question.workload, nodes_for(hardware, devices))
    whole = place(question.workload, hardware, devices)
    if devices <= per_node or runs_on.rule != "heads":
        yield _streams(question, whole)
    else:
        for nodes in range(1, devices // per_node + 1):
            if devices % (nodes * per_node) == 0:
                yield _streams(question, place(question.workload, hardware, nodes * per_node))
        yield _streams(question, whole)
    if question.most_streams and runs_on.rule == "heads":
        smaller = (size for size in (1, 2, 4) if size < min(devices, per_node) and devices % size == 0)
        for size in smaller:
            placed = place(question.workload, hardware, size)
            if placed.fits:
                yield _streams(question, placed)


def _streams(question: Question, placed: Placed) -> Placed:
    return busiest(question, placed) if question.most_streams or question.requests_per_s else placed


def _shared_out(question: Question, placed: Placed, devices: int) -> Plan:
    replicas = max(1, devices // placed.layout.devices) if placed.layout.devices * 2 <= devices else 1
    if engine_rule(question, placed) == "powers":
        replicas = 1
    return _plan(question, placed, replicas=replicas, devices=devices)


def engine_rule(question: Question, placed: Placed) -> str:
    """Return the rule of the engine that runs there."""
    nodes = placed.layout.nodes
    return engine_on(placed.hardware, question.workload, nodes).rule


def _variants(question: Question, hardware: Hardware, least: Placed) -> Iterator[Placed]:
    """Yield the smallest replica, and one over a whole node: there devices are paid for, used or not."""
    yield _streams(question, least)
    per_node = hardware.devices_per_node
    if hardware.origin != "part" and least.layout.devices < per_node:
        whole = place(question.workload, hardware, per_node)
        if whole.fits and whole.layout.tensor > 1:
            yield _streams(question, whole)


def _filled(question: Question, hardware: Hardware, placed: Placed) -> Plan:
    """Return as many replicas as the nodes hold that are paid for anyway."""
    size, per_node = placed.layout.devices, hardware.devices_per_node
    replicas = per_node // size if hardware.origin != "part" and size < per_node else 1
    return _plan(question, placed, replicas=replicas)


def _for_traffic(question: Question, hardware: Hardware) -> Iterator[Plan]:
    least = smallest(question.workload, hardware)
    if least is None:
        return
    size = least.layout.devices
    while size <= max(hardware.devices_per_node, least.layout.devices):
        placed = least if size == least.layout.devices else place(question.workload, hardware, size)
        plan = _plan(question, busiest(question, placed)) if placed.fits else None
        if plan is not None and meets(question, plan) and plan.requests_per_s:
            yield from _enough(question, plan)
            return
        size *= 2


def _enough(question: Question, plan: Plan) -> Iterator[Plan]:
    """Yield the plan with as many replicas as the traffic takes, if there are as many nodes."""
    wanted, hardware = question.requests_per_s or 0.0, plan.hardware
    replicas = ceil(wanted / (plan.requests_per_s or 1.0) - 1e-9)
    size, per_node = plan.layout.devices, hardware.devices_per_node
    nodes = ceil(replicas / (per_node // size)) if size < per_node else replicas * plan.layout.nodes
    if hardware.node_limit is None or nodes <= hardware.node_limit:
        served = wanted * question.workload.output_tokens
        yield replace(plan, replicas=replicas, devices=replicas * size, nodes=nodes, served=served)


def _for_work(question: Question, hardware: Hardware, least: Placed) -> Plan:
    """Return the training on as few nodes as meet the deadline; on the fewest that hold it where there is none.

    More nodes leave more memory for a larger micro-batch, with which fewer may do: the number is approached from
    both sides.
    """
    fewest, most = nodes_for(hardware, least.layout.devices), hardware.node_limit or MOST_NODES
    first = min(max(fewest, _at_least(question, hardware)), most)
    plan = _trained(
        question, hardware, least.layout.devices if first == fewest else first * hardware.devices_per_node
    )
    tried, best = {first, plan.nodes}, None
    for _ in range(MOST_SCALINGS):
        hours, deadline = plan.hours, question.deadline_h
        if not hours or not deadline:
            break
        late = hours > deadline
        if plan.fits and not late and (best is None or plan.nodes < best.nodes):
            best = plan
        wanted = max(ceil(plan.nodes * hours / deadline), plan.nodes + 1 if late else fewest)
        nodes = min(wanted, most)
        if nodes in tried or nodes < fewest:
            break
        tried.add(nodes)
        plan = _trained(question, hardware, nodes * hardware.devices_per_node)
    return best or plan


def _at_least(question: Question, hardware: Hardware) -> int:
    """Return the nodes that the deadline takes where devices only compute: fewer never do."""
    if not question.tokens or not question.deadline_h:
        return 1
    one = ceiling(question.workload, hardware, Layout(), open_batch=question.open_batch)
    if not one:
        return 1
    per_node = one * hardware.devices_per_node * question.deadline_h * SECONDS_PER_HOUR
    return max(1, ceil(question.tokens / per_node))


def _trained(question: Question, hardware: Hardware, devices: int) -> Plan:
    """Return the fastest training on so many devices, with all of them in use."""
    found = fastest(question.workload, hardware, devices, open_batch=question.open_batch, quick=True)
    return _plan(question, found)


def _plan(question: Question, placed: Placed, *, replicas: int = 1, devices: int | None = None) -> Plan:
    hardware, layout = placed.hardware, placed.layout
    used = devices or layout.devices * replicas
    whole = question.whole_context and not placed.workload.trains
    prompt = (
        replace(placed.workload, input_tokens=placed.workload.context, output_tokens=0) if whole else None
    )
    found = placed.speed()
    plan = Plan(
        hardware=hardware,
        workload=placed.workload,
        layout=layout,
        replicas=replicas,
        devices=used,
        nodes=nodes_for(hardware, used),
        memory=placed.memory,
        speed=found,
        engine=placed.workload.engine or "",
        tokens=question.tokens,
        whole_prompt=speed(prompt, layout, hardware).prompt_tokens_per_s if prompt else None,
    )
    return replace(plan, requests_per_s=requests_per_s(plan))
