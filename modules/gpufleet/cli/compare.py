"""``gpufleet compare``: accelerators compared, as a table, JSON, plots or a page."""

from __future__ import annotations

import gc
from typing import Any

import click

from gpufleet.cli import output

PLOTS = ("roofline", "memory-bandwidth", "tokens", "per-watt", "per-dollar", "training", "power")


@click.command(name="compare")
@click.argument("accelerators", nargs=-1, metavar="[ACCELERATOR]...")
@click.option(
    "--model", default="", help="Also compare tokens per second of this model, per watt and per dollar."
)
@click.option("--task", default="", help="inference (default), full_finetune, lora, qlora, dpo or pretrain.")
@click.option("--precision", default="", help="bf16 (default), fp8, q4_k_m ... of the model's weights.")
@click.option("--context", default="", help="Tokens of a sequence, or IN/OUT.")
@click.option("--batch", default="", help="Parallel streams, or max; training: micro-batch per device.")
@click.option("--engine", default="", help="Engine for all accelerators; default: by hardware.")
@click.option(
    "--plot",
    "plots",
    multiple=True,
    type=click.Choice(PLOTS),
    help="Plot to write to an .svg or .html file; repeatable for a page.",
)
@output.report_options("table", "json", "html", "svg", former_names=("--svg", "--html"))
def compare_command(
    *,
    accelerators: tuple[str, ...],
    plots: tuple[str, ...],
    report: output.ReportOutput,
    **options: Any,
) -> None:
    """Compare accelerators: memory, rates, prices, and the speed of a model with its 80 % interval.

    \b
    gpufleet compare
    gpufleet compare "H100 SXM5" MI300X "RTX 4090" --model llama-3.1-8b --precision q4_k_m
    gpufleet compare --model llama-3.1-8b --plot tokens --output tokens.svg
    """  # noqa: D301 - the escape is click's mark for lines that stay as they are
    gc.disable()  # a short process, as in size
    from gpufleet.sizing.compare.builder import compare_accelerators
    from gpufleet.sizing.compare.file_output import render_comparison
    from gpufleet.sizing.compare.options import build_sizing_request, check_plot_options

    check_plot_options(plots, report.list_formats())
    comparison = compare_accelerators(accelerators, build_sizing_request(**options))
    report.write(lambda name: render_comparison(comparison, name, plots))
