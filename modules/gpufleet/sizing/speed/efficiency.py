"""Efficiency: factors on nominal rates, fitted to published measurements."""

from __future__ import annotations

from dataclasses import field
from functools import cache

from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.data_file import load_sizing_rows

ANY = "*"
Key = tuple[str, str, str]  # parameter, device class (or link, or generation of engines), engine; ANY for all
SERVER_ENGINES = frozenset({"vllm", "sglang", "tensorrt-llm", "lmdeploy"})
OWN_PARAMETERS = frozenset({"latent_seconds", "expert_seconds"})
SERVER_SHARED_PARAMETERS = (
    "layer_seconds",
    "step_seconds",
    "weight_bandwidth",
    "expert_",
    "latent_",
    "link_",
    "fused_",
    "exchange_",
)  # measurable with one stream


def find_engine_group(parameter: str, engine: str) -> str:
    """Return the engine group of a factor: servers share factors, because they replay CUDA graphs of similar kernels.

    Single-stream factors of one server apply to the others; measurements of many streams cannot separate them. vLLM and
    SGLang share most factors: they call the same kernel libraries from the same kind of scheduler. How many kernels
    latent attention and experts take is each server's own.
    """
    if parameter in OWN_PARAMETERS:
        return engine
    if engine in SERVER_ENGINES and parameter.startswith(SERVER_SHARED_PARAMETERS):
        return "server"
    return "vllm" if engine == "sglang" else engine


@dataclass(frozen=True)
class EfficiencyFactors:
    """Factors by parameter, device class and engine; a common factor times corrections.

    A class or engine without measurements has the common factor only.
    """

    factors: dict[Key, float]
    products: dict[tuple[str, str, str, str], float] = field(
        default_factory=dict, compare=False, repr=False
    )  # as they are asked for

    def get_factor(self, parameter: str, device: str, engine: str, generation: str = "") -> float:
        """Return the parameter's factor for that device class, engine and generation of engines."""
        key = (parameter, device, engine, generation)
        if key not in self.products:
            self.products[key] = self._multiply(*key)
        return self.products[key]

    def _multiply(self, parameter: str, device: str, engine: str, generation: str) -> float:
        get, engine = self.factors.get, find_engine_group(parameter, engine)
        return (
            get((parameter, ANY, ANY), 1.0)
            * get((parameter, device, ANY), 1.0)
            * get((parameter, ANY, engine), 1.0)
            * get((parameter, device, engine), 1.0)
            * (get((parameter, generation, ANY), 1.0) if generation else 1.0)
        )


@cache
def load_efficiency_factors() -> EfficiencyFactors:
    """Return the factors of efficiency.csv."""
    return EfficiencyFactors(
        {
            (r["parameter"], r["device"], r["engine"]): r.get_number("value")
            for r in load_sizing_rows("efficiency.csv")
        }
    )
