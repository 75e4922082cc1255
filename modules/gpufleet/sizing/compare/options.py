"""Options of ``gpufleet compare``, parsed into a sizing request."""

from __future__ import annotations

from collections.abc import Collection

from gpufleet.errors import InputError
from gpufleet.sizing.plans.options import PlanOptions
from gpufleet.sizing.plans.options import parse_plan_options as sized
from gpufleet.sizing.plans.request import SizingRequest


def build_sizing_request(*, model: str, **options: str) -> SizingRequest | None:
    """Return the request for each accelerator, None without a model."""
    given_options = {name: value for name, value in options.items() if value}
    if not model:
        for name in given_options:
            raise InputError("needs a model", where=f"--{name}", remedy="give --model")
        return None
    return sized(PlanOptions(model, **given_options))  # type: ignore[arg-type]  # strings only: the options of compare


def check_plot_options(plots: tuple[str, ...], formats: Collection[str | None]) -> None:
    """Raise InputError for plots without an output file, and for several plots in one SVG."""
    if plots and not {"svg", "html"} & {*formats}:
        raise InputError("has no output file", where="--plot", remedy="give --output FILE.svg or FILE.html")
    if "svg" in formats and len(plots) > 1:
        raise InputError(
            "an .svg file can contain only one plot",
            where="--output",
            remedy="name one --plot, or write a page: --output FILE.html",
        )
