"""The agent's tables of C functions, types and constants equal NVIDIA's own headers."""

import ctypes
import importlib.util
import re
from pathlib import Path

import pytest

from c_values import compute_c_values
from gpufleet.burnin.agent import clibrary, cuda_driver, nvml


def find_header(package, name):
    """Return a header's text from NVIDIA's package, or skip."""
    spec = importlib.util.find_spec(package)
    for folder in spec.submodule_search_locations if spec else ():
        path = Path(folder) / "include" / name
        if path.exists():
            return path
    pytest.skip(f"{package} is not installed")
    return None


@pytest.fixture(scope="module")
def cuda_header():
    return find_header("nvidia.cuda_runtime", "cuda.h")


@pytest.fixture(scope="module")
def nvml_header():
    return find_header("nvidia.nvml_dev", "nvml.h")


def read_prototypes(path):
    """Return a header's functions as our tables write them: types without parameters' names."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", path.read_text(errors="replace"), flags=re.DOTALL)
    functions = {}
    for name, body in re.findall(r"\b(?:CUDAAPI|DECLDIR)\s+(\w+)\s*\(([^;{]*)\)\s*;", text):
        words = [re.sub(r"\s+", " ", word).strip() for word in body.split(",")]
        functions.setdefault(
            name, [re.sub(r"\s*(\*+)\s*", r" \1", strip_name(word)).strip() for word in words]
        )
    aliases = dict(re.findall(r"#\s*define\s+(cu\w+)\s+(cu\w+_v\d+)\b", path.read_text(errors="replace")))
    # cuda.h declares a function by its plain name and renames it to the newest version.
    return {aliases.get(name, name): words for name, words in functions.items()} | functions


def strip_name(word):
    """Return a parameter's type."""
    return word if word in {"void", ""} else re.sub(r"\b\w+\s*(\[\w*\])?$", "", word).strip() or word


def normalise(table):
    """Return our table in the same form."""
    for line in filter(None, map(str.strip, table.splitlines())):
        name, _, rest = line.rstrip(")").partition("(")
        yield name, [re.sub(r"\s*(\*+)", r" \1", word.strip()) for word in rest.split(",")]


@pytest.mark.parametrize(("module", "fixture"), [(cuda_driver, "cuda_header"), (nvml, "nvml_header")])
def test_every_prototype_equals_the_header(module, fixture, request):
    declared = read_prototypes(request.getfixturevalue(fixture))
    ours = dict(normalise(module.PROTOTYPES))
    assert len(ours) > 20
    assert {name: declared.get(name) for name in ours} == ours


@pytest.mark.parametrize(("module", "fixture"), [(cuda_driver, "cuda_header"), (nvml, "nvml_header")])
def test_every_constant_equals_the_header(module, fixture, request, tmp_path):
    assert compute_c_values(request.getfixturevalue(fixture), module.CONSTANTS, tmp_path) == list(
        module.CONSTANTS.values()
    )


def test_structures_have_nvmls_layout(nvml_header, tmp_path):
    fields = ("fieldId", "scopeId", "timestamp", "latencyUsec", "valueType", "nvmlReturn", "value")
    expressions = [
        "sizeof(nvmlFieldValue_t)",
        *(f"offsetof(nvmlFieldValue_t, {field})" for field in fields),
        "sizeof(nvmlMarginTemperature_v1_t)",
        "nvmlMarginTemperature_v1",
    ]
    ours = [getattr(nvml.FieldValue, name).offset for name, *_ in nvml.FieldValue._fields_]
    size = ctypes.sizeof(nvml.MarginTemperature)
    expected = [ctypes.sizeof(nvml.FieldValue), *ours, size, size | 1 << 24]
    assert compute_c_values(nvml_header, expressions, tmp_path) == expected


def test_a_pointer_is_an_address_and_void_is_nothing():
    types = clibrary.parse_prototypes("f(void)\ng(int, const char **, size_t)", {})
    assert types == {"f": [], "g": [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]}


def test_a_missing_library_says_so():
    with pytest.raises(clibrary.LibraryError, match=r"libnothing\.so\.1 is not installed") as caught:
        clibrary.find_library(["libnothing.so.1"])
    assert caught.value.code is None


class FakeNvml:
    """NVML of one GPU: the state of each link, and fields by id and link; a missing one is NOT_SUPPORTED."""

    def __init__(self, states, fields):
        self.states, self.fields = states, fields

    def call(self, name, *arguments):
        assert name == "nvmlDeviceGetHandleByPciBusId_v2"

    def try_call(self, name, handle, *arguments):
        if name == "nvmlDeviceGetNvLinkState" and arguments[0] < len(self.states):
            ctypes.c_uint.from_address(arguments[1]).value = self.states[arguments[0]]
            return 0
        if name == "nvmlDeviceGetFieldValues":
            field = nvml.FieldValue.from_address(arguments[1])
            value = self.fields.get((field.field, field.scope))
            field.code, field.value = (3, 0) if value is None else (0, value)
            return 0
        return 3


@pytest.mark.parametrize(
    ("states", "fields", "expected"),
    [
        # Up to NVLink 4: totals of all links.
        (
            [1, 1, 0, 1],
            {(38, 0): 2, (45, 0): 3, (52, 0): 7, (59, 0): 1},
            {"nvlinks_active": 3, "nvlink_replays": 7, "nvlink_recoveries": 1, "nvlink_crc_errors": 5},
        ),
        # NVLink 5: recoveries of each link.
        (
            [1, 1],
            {(215, 0): 1, (215, 1): 4},
            {"nvlinks_active": 2, "nvlink_replays": None, "nvlink_recoveries": 5, "nvlink_crc_errors": None},
        ),
        ([0, 0], {}, {"nvlinks_active": 0}),
        ([], {}, {"nvlinks_active": None}),
    ],
)
def test_links_and_their_errors_are_read_by_generation(states, fields, expected):
    assert nvml.GpuSensors(FakeNvml(states, fields), "0000:18:00.0").read_link_errors() == expected
