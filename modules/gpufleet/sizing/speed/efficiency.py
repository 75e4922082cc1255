"""How much of a part's nominal rates is really had: factors learned from published measurements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpufleet.sizing.data_file import load_rows

ANY = "*"
Key = tuple[str, str, str]  # parameter, device class, engine; ANY where the factor holds for all
SERVER_ENGINES = frozenset({"vllm", "tensorrt-llm", "lmdeploy"})
SERVER_SHARED_PARAMETERS = (
    "layer_seconds",
    "step_seconds",
    "weight_bandwidth",
    "expert_",
    "link_",
)  # one stream shows what these are


def engine_group(parameter: str, engine: str) -> str:
    """Return whose measurements speak for the engine: servers replay captured graphs of much the same kernels.

    What one stream shows of one of them holds for the others; rows of many streams alone cannot tell it apart.
    """
    return "server" if engine in SERVER_ENGINES and parameter.startswith(SERVER_SHARED_PARAMETERS) else engine


@dataclass(frozen=True)
class Efficiency:
    """Factors by parameter, device class and engine. What holds for all is corrected by what is special.

    A class or engine without measurements of its own is left with what holds for all.
    """

    factors: dict[Key, float]

    def get_factor(self, parameter: str, device: str, engine: str) -> float:
        """Return the parameter's value for that class of device and that engine."""
        get, engine = self.factors.get, engine_group(parameter, engine)
        return (
            get((parameter, ANY, ANY), 1.0)
            * get((parameter, device, ANY), 1.0)
            * get((parameter, ANY, engine), 1.0)
            * get((parameter, device, engine), 1.0)
        )


@cache
def load_efficiency() -> Efficiency:
    """Return the factors that ship with the package."""
    return Efficiency(
        {(r["parameter"], r["device"], r["engine"]): float(r["value"]) for r in load_rows("efficiency.csv")}
    )
