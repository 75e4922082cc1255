"""Compile the kernels' sources again: what the agent carries must be what a compiler makes of them.

``--regenerate`` writes the compiled files. Another version of a compiler makes other ones of the same text.
"""

import ctypes
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cuda_software import KERNELS, define_constants
from gpufleet.burnin.agent.kernel_source import CARD_KERNELS

# The oldest instructions that basic.cu needs, and the oldest driver that takes them: CUDA 9.0. The compiler writes the
# version of its own toolkit, which only a newer driver takes; ptxas refuses an instruction that a version lacks.
PTX_VERSION, ARCHITECTURE = "6.0", "compute_70"
GLSLANG = "12.0.0"
ELEMENTS = {"u32": "uint", "f32": "float"}


def find_compiler():
    """Return the library of the package nvidia-cuda-nvrtc-cu12, or skip."""
    spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    for folder in spec.submodule_search_locations if spec else ():
        for path in sorted(Path(folder).glob("lib/libnvrtc.so.*")):
            return ctypes.CDLL(str(path))
    pytest.skip("nvidia-cuda-nvrtc-cu12 is not installed")
    return None


def compile_cuda(compiler, source):
    """Return the PTX that NVIDIA's compiler makes of a source."""
    options = [f"--gpu-architecture={ARCHITECTURE}", *define_constants()]
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    compiler.nvrtcCreateProgram(
        ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None
    )
    words = (ctypes.c_char_p * len(options))(*map(str.encode, options))
    code = compiler.nvrtcCompileProgram(program, len(options), words)
    texts = {}
    for what in ("ProgramLog", "PTX"):
        compiler[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        compiler[f"nvrtcGet{what}"](program, text)
        texts[what] = text.value.decode()
    assert code == 0, texts["ProgramLog"]
    return texts["PTX"]


def test_the_ptx_is_what_nvidias_compiler_makes_of_the_source(golden):
    made = compile_cuda(find_compiler(), KERNELS / "basic.cu")
    golden(
        KERNELS / "basic.ptx", re.sub(r"^\.version .*$", f".version {PTX_VERSION}", made, flags=re.MULTILINE)
    )


@pytest.mark.parametrize("name", CARD_KERNELS)
def test_the_spirv_is_what_glslang_makes_of_the_source(name, request, tmp_path):
    compiler = shutil.which("glslangValidator")
    if compiler is None:
        pytest.skip("glslang-tools is not installed")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    if not re.match(rf"Glslang Version: \d+:{re.escape(GLSLANG)}\n", version):
        pytest.skip(f"the files are glslang {GLSLANG}'s")
    function, _, kind = name.rpartition("_") if name[-3:] in ELEMENTS else (name, "", "u32")
    options = [*define_constants(), f"-DKERNEL={function}", f"-DELEMENT={ELEMENTS[kind]}"]
    made, kept = tmp_path / "made.spv", KERNELS / f"{name}.spv"
    # -g0: without the names of variables.
    argv = [compiler, "-V", "--quiet", "-g0", "--target-env", "vulkan1.1", *options, "-o", made]
    subprocess.run([*argv, KERNELS / "card.comp"], check=True)
    if request.config.getoption("--regenerate"):
        kept.write_bytes(made.read_bytes())
    assert made.read_bytes() == kept.read_bytes()
