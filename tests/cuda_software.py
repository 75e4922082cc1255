"""A fake of NVIDIA's driver: the agent's CUDA code runs on it in the tests, its kernels on this processor."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gpufleet.burnin import agent
from gpufleet.burnin.agent.kernel_source import DEFINITIONS

KERNELS = Path(agent.__file__).with_name("kernels")
SOURCES = [Path(__file__).with_name("burnin") / name for name in ("fake_cuda.c", "host_kernels.cpp")]
FLAGS = ["-O3", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-ffp-contract=off", f"-I{KERNELS}"]


def define_constants():
    """Return the kernels' constants as options of a compiler."""
    return [f"-D{name}={value}u" for name, value in DEFINITIONS.items()]


def build_fake_cuda(library):
    """Compile the fake driver to a file; return its path."""
    if shutil.which("cc") is None or shutil.which("c++") is None:
        pytest.skip("no C and C++ compiler")
    subprocess.run(["cc", *FLAGS, *define_constants(), "-o", library, *SOURCES, "-lm"], check=True)
    return library
