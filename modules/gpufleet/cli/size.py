"""``gpufleet size``: what a workload needs, how fast it will be, what it will cost, and on what."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from gpufleet.cli import output
from gpufleet.errors import CheckFailed, InputError

TASK_NAMES = "inference, full_finetune, lora, qlora, dpo or pretrain"
Command = Callable[..., Any]


def _workload_options(command: Command) -> Command:
    for option in reversed(
        (
            click.option(
                "--model",
                required=True,
                help="A catalogue name or part of it, a config.json, or a GGUF file.",
            ),
            click.option("--task", default="inference", show_default=True, help=f"{TASK_NAMES}."),
            click.option(
                "--precision", default="", help="bf16 (default), f32, f16, fp8, int8, int4, nf4, q4_k_m ..."
            ),
            click.option(
                "--context",
                default="",
                help="Tokens of a sequence, or IN/OUT (default 1024/256; training 2048).",
            ),
            click.option(
                "--batch",
                default="",
                help="Parallel streams, or max (inference); micro-batch per device (training).",
            ),
            click.option("--kv-precision", default="", help="Precision of the KV cache (default f16)."),
            click.option(
                "--engine",
                default="",
                help="llama.cpp, vllm, mlx, distributed-llama ... (default by hardware).",
            ),
            click.option(
                "--engine-version",
                default="",
                help="Version or date of --engine (default the newest): 0.11, 2025-10.",
            ),
            click.option("--draft-tokens", type=int, help="Tokens that speculative decoding guesses ahead."),
            click.option("--acceptance", type=float, help="Share of right guesses (default 0.85)."),
            click.option("--prefix-hits", type=float, help="Share of the prompt that the prefix cache has."),
            click.option("--disaggregated", is_flag=True, help="Other devices process the prompts."),
        )
    ):
        command = option(command)
    return command


def _amount_options(command: Command) -> Command:
    for option in reversed(
        (
            click.option("--tokens", default="", help="Amount of work in tokens: 2e9, 300M, 15T."),
            click.option(
                "--dataset", type=int, help="Amount of work in sequences of --context tokens (training)."
            ),
            click.option("--epochs", type=float, help="Number of epochs (default 1)."),
            click.option("--requests-per-s", type=float, help="Traffic; determines the number of replicas."),
            click.option("--users", type=int, help="People who wait for an answer at the same time."),
            click.option(
                "--tokens-per-user", type=float, help="Tokens per second that each of --users gets at least."
            ),
            click.option("--ttft-ms", type=float, help="Maximum time to first token."),
            click.option("--tpot-ms", type=float, help="Maximum time per output token."),
            click.option(
                "--latency", "latency_s", type=float, help="Maximum time of a complete request, in seconds."
            ),
            click.option(
                "--deadline", default="", help="Maximum duration (36h, 7d, 2w), or a date such as 2027-01-31."
            ),
        )
    ):
        command = option(command)
    return command


def _choice_options(command: Command) -> Command:
    for option in reversed(
        (
            click.option(
                "--on",
                multiple=True,
                help="A machine (p4d.24xlarge), a rack, or an accelerator (H100 SXM5 80GB); repeat to compare.",
            ),
            click.option(
                "--host", default="", help="The computer that the card of --on is in: Raspberry Pi 5, PC ..."
            ),
            click.option("--slot", default="", help="Its slot: x1, x4, 3.0x4, Thunderbolt 4, OCuLink ..."),
            click.option("--devices", type=int, help="Number of accelerators; with --on, exactly one plan."),
            click.option("--tensor-parallel", type=int, help="Devices that share each layer, with --on."),
            click.option("--pipeline-parallel", type=int, help="Stages of layers, with --on."),
            click.option(
                "--data-parallel",
                type=int,
                help="Copies; with --expert-parallel groups of attention that share the experts.",
            ),
            click.option("--expert-parallel", type=int, help="Devices over which whole experts are spread."),
            click.option(
                "--reserve-gib", type=float, help="Memory of each device that is reserved for other programs."
            ),
            click.option(
                "--budget",
                type=float,
                help="Maximum USD for the work, or per month without an amount of work.",
            ),
            click.option("--region", "regions", multiple=True, help="Only this region (may be repeated)."),
            click.option(
                "--cloud", "clouds", multiple=True, help="Only this cloud, such as aws (may be repeated)."
            ),
            click.option(
                "--purchase",
                "purchases",
                multiple=True,
                help="on_demand, spot, reserved_1y, reserved_3y, owned.",
            ),
            click.option(
                "--usd-per-kwh",
                type=float,
                help="Price of power when hardware is bought (default: US average).",
            ),
            click.option("--owned", is_flag=True, help="Only racks and workstations of this project."),
            click.option(
                "--rank", default="", help="cost, time, speed or power (default cost; with --owned, speed)."
            ),
            click.option("--top", default=20, show_default=True, help="Number of plans; 0 shows all."),
        )
    ):
        command = option(command)
    return command


def _training_options(command: Command) -> Command:
    for option in reversed(
        (
            click.option("--optimizer", default="", help="adamw, adamw_8bit, paged_adamw_8bit or sgd."),
            click.option("--adapter", default="", help="none, lora or qlora, with --task dpo."),
            click.option("--lora-rank", type=int, help="Rank of the adapter (default 16)."),
            click.option("--recompute", default="", help="auto, none, selective or full."),
            click.option("--sharding", default="", help="auto, none, zero1, zero2 or zero3 (FSDP)."),
            click.option("--offload", default="", help="none, optimizer or all."),
            click.option(
                "--states",
                default="",
                help="mixed (default: 32-bit copy and moments) or bf16 (pure 16 bits).",
            ),
            click.option(
                "--experts",
                default="",
                help="fused (default: 16-bit experts without adapters) or linear (quantised, adapted).",
            ),
        )
    ):
        command = option(command)
    return command


def _check_empty_options(context: click.Context, *, merge: bool) -> None:
    """Raise InputError for an empty option value (an unset shell variable), or for --merge without --emit."""
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        is_given = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        texts = [text for text in (value if isinstance(value, tuple) else (value,)) if isinstance(text, str)]
        if is_given and any(not text.strip() for text in texts):
            raise InputError("is empty", where=parameter.opts[0], remedy="give a value, or remove the option")
    if merge:
        raise InputError(
            "can only be combined with --emit",
            where="--merge",
            remedy="give --emit STACK, or remove the option",
        )


@click.command(name="size")
@_workload_options
@_amount_options
@_choice_options
@_training_options
@click.option("--emit", metavar="STACK", help="Write the best plan to stacks/Pulumi.STACK.yaml.")
@click.option("--merge", is_flag=True, help="With --emit: change an existing stack file.")
@output.json_option
def size_command(emit: str | None, merge: bool, as_json: bool, **options: Any) -> None:
    """Size a workload: memory, speed with an 80 % interval, time, power and cost; ranked plans.

    \b
    gpufleet size --model llama-3.1-8b --on p4d.24xlarge --devices 8
    gpufleet size --model llama-3.1-70b --users 40 --tokens-per-user 20
    gpufleet size --model qwen2.5-7b --requests-per-s 20 --context 800/200 --tpot-ms 50
    gpufleet size --model llama-3.1-70b --task pretrain --tokens 1T --deadline 30d
    """  # noqa: D301 - the escape is click's mark for lines that stay as they are
    _check_empty_options(click.get_current_context(), merge=merge and not emit)
    gc.disable()  # a short process: garbage collection would take a tenth of its time
    from gpufleet.sizing.plans.document import build_sizing_document
    from gpufleet.sizing.plans.options import PlanOptions, parse_plan_options
    from gpufleet.sizing.plans.report import format_sizing_report
    from gpufleet.sizing.plans.search import find_plans
    from gpufleet.sizing.plans.target import is_missed_target_warning

    request = parse_plan_options(PlanOptions(**options))
    result = find_plans(request)
    output.print_result(as_json, result, build_sizing_document, format_sizing_report)
    if not result.plans:
        raise CheckFailed(result.warnings[-1].message if result.warnings else "no plan")
    misses = [warning.message for warning in result.warnings if is_missed_target_warning(warning)]
    if misses:
        raise CheckFailed("; ".join(misses))
    if emit:
        from gpufleet import paths
        from gpufleet.sizing.stack_file import choose_plan_to_write, write_plan_to_stack

        plan, note = choose_plan_to_write(request, result)
        output.print_text_block(
            write_plan_to_stack(plan, emit, paths.find_project_root(), merge=merge), err=True
        )
        if note:
            output.print_lines(note, err=True)
