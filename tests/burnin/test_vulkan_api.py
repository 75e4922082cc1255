"""The agent's tables of Vulkan functions, structures and constants equal Khronos' own header."""

import ctypes
import re
from pathlib import Path

import pytest

from c_values import compute_c_values
from gpufleet.burnin.agent import vulkan_api as api

HEADER = Path("/usr/include/vulkan/vulkan_core.h")
needs_header = pytest.mark.skipif(not HEADER.exists(), reason="libvulkan-dev is not installed")


def read_prototypes(result):
    """Return the header's functions with a result type, as our tables write them."""
    pattern = rf"VKAPI_ATTR {result} VKAPI_CALL (vk\w+)\(([^;]*)\);"
    functions = {}
    for name, body in re.findall(pattern, HEADER.read_text()):
        types = [re.sub(r"\s*\w+$", "", " ".join(word.split())) for word in body.split(",")]
        functions[name] = [re.sub(r"\s*(\*+)", r" \1", kind) for kind in types]
    return functions


def parse_table(table):
    """Return our table in the same form."""
    for line in filter(None, table.splitlines()):
        name, _, rest = line.rstrip(")").partition("(")
        yield name, [word.strip() for word in rest.split(",")]


@needs_header
@pytest.mark.parametrize(("result", "table"), [("VkResult", api.PROTOTYPES), ("void", api.VOID_PROTOTYPES)])
def test_every_prototype_equals_the_header(result, table):
    declared, ours = read_prototypes(result), dict(parse_table(table))
    assert len(ours) > 15
    assert {name: declared.get(name) for name in ours} == ours


@needs_header
def test_every_type_of_a_parameter_has_the_headers_size(tmp_path):
    names = [name for name in api.TYPES if name.startswith("Vk")]
    assert compute_c_values(HEADER, [f"sizeof({name})" for name in names], tmp_path) == [
        ctypes.sizeof(api.TYPES[name]) for name in names
    ]


@needs_header
def test_every_structure_has_the_headers_layout(tmp_path):
    expressions, ours = [], []
    for name, kind in api.STRUCTURE_TYPES.items():
        expressions.append(f"sizeof({name})")
        ours.append(ctypes.sizeof(kind))
        for field, *_ in kind._fields_:
            expressions += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
            ours += [getattr(kind, field).offset, getattr(kind, field).size]
    assert dict(zip(expressions, compute_c_values(HEADER, expressions, tmp_path), strict=True)) == dict(
        zip(expressions, ours, strict=True)
    )


def spell_structure_type(name):
    """Return the enumerator that belongs to a structure: ``VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO``."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[0-9])(?=[A-Z])", "_", name[2:])
    return f"VK_STRUCTURE_TYPE_{spaced.upper()}"


@needs_header
def test_every_number_equals_the_header(tmp_path):
    numbers = {spell_structure_type(name): number for name, number in api.STRUCTURE_NUMBERS.items()}
    numbers |= api.CONSTANTS | api.RESULTS
    assert dict(zip(numbers, compute_c_values(HEADER, numbers, tmp_path), strict=True)) == numbers


@needs_header
def test_limits_are_where_the_header_has_them(tmp_path):
    expressions = [f"offsetof(VkPhysicalDeviceLimits, {name})" for name in api.LIMITS]
    assert compute_c_values(HEADER, expressions, tmp_path) == [offset for offset, _ in api.LIMITS.values()]


def test_a_structure_keeps_what_it_points_to():
    names = api.make_array(ctypes.c_char_p, [b"VK_EXT_memory_budget"])
    made = api.make("VkDeviceCreateInfo", enabledExtensionCount=1, ppEnabledExtensionNames=names)
    assert (made.sType, made.ppEnabledExtensionNames) == (3, ctypes.addressof(names))
    assert made.keep[1] is names
    assert api.make("VkApplicationInfo", pApplicationName=b"x").keep[0].value == b"x"
