"""``gpufleet compare``: accelerators compared, as a table, JSON, plots or a page."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import click

from gpufleet.cli import output

PLOTS = ("roofline", "memory-bandwidth", "tokens", "per-watt", "per-dollar", "training", "power")
OUTPUT_FILE = click.Path(dir_okay=False, path_type=Path)


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
    help="Plot to write to --svg or --html; repeatable with --html.",
)
@click.option("--svg", "svg_file", type=OUTPUT_FILE, metavar="FILE", help="Write one plot.")
@click.option(
    "--html", "html_file", type=OUTPUT_FILE, metavar="FILE", help="Write a page with plots and figures."
)
@output.json_option
def compare_command(
    *,
    accelerators: tuple[str, ...],
    plots: tuple[str, ...],
    svg_file: Path | None,
    html_file: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare accelerators: memory, rates, prices, and the speed of a model with its 80 % interval.

    \b
    gpufleet compare
    gpufleet compare "H100 SXM5" MI300X "RTX 4090" --model llama-3.1-8b --precision q4_k_m
    gpufleet compare --model llama-3.1-8b --plot tokens --svg tokens.svg
    """  # noqa: D301 - the escape is click's mark for lines that stay as they are
    gc.disable()  # a short process, as in size
    from gpufleet.sizing.compare.builder import compare_accelerators
    from gpufleet.sizing.compare.document import build_comparison_document
    from gpufleet.sizing.compare.options import build_sizing_request, check_plot_options
    from gpufleet.sizing.compare.report import format_comparison_report

    check_plot_options(plots, svg=svg_file is not None, html=html_file is not None)
    comparison = compare_accelerators(accelerators, build_sizing_request(**options))
    if svg_file or html_file:
        from gpufleet.sizing.compare.file_output import write_plot_files

        write_plot_files(comparison, plots, svg_file, html_file)
    output.print_result(as_json, comparison, build_comparison_document, format_comparison_report)
