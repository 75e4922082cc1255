"""The inputs of resource types, read from the classes of a Pulumi SDK.

A type is a short text: ``string``, ``boolean``, ``integer``, ``number``, ``any``, ``[T]`` (list), ``{T}`` (map),
``#Name`` (object), ``=Name`` (one of an enum's values), ``T|T`` (either). A ``!`` after it marks a required input.
"""

from __future__ import annotations

import enum
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import re
import types
import typing
from collections.abc import Awaitable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pulumi

from gpufleet.boundary import LARGE_DOCUMENT, decode_json, read_packaged_json
from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal.providers.input_types import InputSchema
from tools.provider_schema.vendor_enums import load_vendor_enums

SDKS = {"aws": "pulumi_aws", "gcp": "pulumi_gcp", "azure-native": "pulumi_azure_native"}
_PRIMITIVES = {str: "string", bool: "boolean", int: "integer", float: "number"}
# Enums that the SDK lists from an old version of the API: any text is allowed there.
_OPEN_ENUMS = {"VirtualMachineSizeTypes", "InstanceType", "InstancePlatform", "Region"}
_REGISTER = re.compile(r'resource_modules="""\n(.*?)"""', re.DOTALL)
# Google's own generator writes the values of an enum into the description.
_VALUES_IN_TEXT = re.compile(r"Possible values are: ((?:`[A-Z0-9_a-z.\-]+`(?:, | and |, and )?)+)")


class _SchemaBuilder:
    """Collects the objects and enums that the inputs of some resource types refer to."""

    def __init__(self, cloud: str, enums_by_property: Mapping[str, Sequence[str]]) -> None:
        self.cloud = cloud
        self.enums_by_property = enums_by_property
        self.objects: dict[str, dict[str, str]] = {}
        self.enums: dict[str, list[str]] = {}

    def describe_resource(self, token: str) -> dict[str, str]:
        """Return property -> type of one resource type."""
        _, module_path, name = token.split(":")
        resource = getattr(importlib.import_module(list_resource_modules(self.cloud)[token]), name)
        own_module = importlib.import_module(resource.__module__)
        # A nested type may have the name first: then the resource's class is called InitArgs.
        arguments = getattr(own_module, f"{name}InitArgs", None) or getattr(own_module, f"{name}Args")
        return self._describe_class(arguments, f"{module_path.split('/')[0]}.{name}")

    def _describe_class(self, cls: Any, name: str) -> dict[str, str]:
        # "Output" is a forward reference inside pulumi.Input, which typing cannot resolve in the SDK's module.
        names = {**vars(inspect.getmodule(cls)), "Output": pulumi.Output, "T": Any}
        # Equal forward references of two modules are one cached object, which keeps the class that it was resolved to
        # first. With local names of their own, typing resolves each again.
        hints = typing.get_type_hints(cls.__init__, names, {})
        parameters = inspect.signature(cls.__init__).parameters
        properties = {}
        for python_name, parameter in parameters.items():
            if python_name in ("__self__", "self"):
                continue
            getter = getattr(cls, python_name)
            key = getattr(getter.fget, "_pulumi_name", python_name)
            text = self._describe_type(hints[python_name])
            text = self._apply_enum(f"{name}.{key}", text, getter.fget.__doc__ or "")
            properties[key] = text + ("!" if parameter.default is inspect.Parameter.empty else "")
        return dict(sorted(properties.items()))

    def _apply_enum(self, path: str, text: str, description: str) -> str:
        """Return the type with an enum that the SDK's annotation does not have."""
        values = list(self.enums_by_property.get(path, ()))
        if not values and self.cloud == "gcp" and (match := _VALUES_IN_TEXT.search(description)):
            values = re.findall(r"`([^`]+)`", match[1])
        if not values or "string" not in text:
            return text
        self.enums[path] = sorted(set(values))
        return text.replace("string", f"={path}")

    def _describe_type(self, hint: Any) -> str:
        if hint in _PRIMITIVES:
            return _PRIMITIVES[hint]
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return self._describe_union(arguments)
        if origin is not None and issubclass(origin, Mapping):
            return f"{{{self._describe_type(arguments[1])}}}"
        if origin is not None and issubclass(origin, Sequence):
            return f"[{self._describe_type(arguments[0])}]"
        if inspect.isclass(hint) and issubclass(hint, enum.Enum):
            return self._describe_enum(hint)
        if inspect.isclass(hint) and pulumi.Input is not hint and hasattr(hint, "_pulumi_input_type"):
            return self._describe_object(hint)
        return "any"

    def _describe_union(self, members: Sequence[Any]) -> str:
        plain = [member for member in members if not _is_wrapper(member)]
        described = sorted({self._describe_type(member) for member in plain} - {""})
        if "any" in described:
            return "any"
        enums = [text for text in described if text.startswith("=")]
        # "str or enum": the annotation of an enum that the API may extend; the values that are known today apply.
        return "|".join(text for text in described if text != "string" or not enums) or "any"

    def _describe_enum(self, hint: Any) -> str:
        if hint.__name__ in _OPEN_ENUMS:
            return "string"
        self.enums[hint.__name__] = sorted(str(member.value) for member in hint)
        return f"={hint.__name__}"

    def _describe_object(self, hint: Any) -> str:
        package = hint.__module__.removeprefix(f"{SDKS[self.cloud]}.").removesuffix("._inputs")
        name = f"{package}.{hint.__name__.removesuffix('Args')}"
        if name not in self.objects:
            self.objects[name] = {}  # first: a type may contain itself
            self.objects[name] = self._describe_class(hint, name)
        return f"#{name}"


def _is_wrapper(member: Any) -> bool:
    """Return True for what ``pulumi.Input[T]`` adds to T, for None and for the dictionary form of an object."""
    origin = typing.get_origin(member)
    if member is type(None) or origin is pulumi.Output or member is pulumi.Output:
        return True
    if inspect.isclass(origin) and issubclass(origin, Awaitable):
        return True
    return inspect.isclass(member) and typing.is_typeddict(member)


@cache
def list_resource_modules(cloud: str) -> dict[str, str]:
    """Return the module of each resource type of an SDK, by token."""
    spec = importlib.util.find_spec(SDKS[cloud])
    if spec is None or spec.origin is None:
        raise EnvironmentFault(f"{SDKS[cloud]} is not installed", hint="make setup")
    register = _REGISTER.search(Path(spec.origin).read_text(encoding="utf-8"))
    modules = decode_json(register[1], SDKS[cloud], limits=LARGE_DOCUMENT) if register else []
    return {token: each["fqn"] for each in modules for token in each["classes"]}


def build_type_schema(cloud: str, token: str) -> InputSchema:
    """Return the inputs of one resource type of an SDK."""
    builder = _SchemaBuilder(cloud, {})
    properties = builder.describe_resource(token)
    return InputSchema(
        {token: properties}, builder.objects, builder.enums, converts_text=cloud != "azure-native"
    )


def build_cloud_schema(cloud: str) -> dict[str, Any]:
    """Return the schema of every resource type that ``data/<cloud>.json`` lists."""
    tokens = read_packaged_json("gpufleet.rehearsal.providers", f"data/{cloud}.json")["types"]
    sources = [f"{SDKS[cloud]} {importlib.metadata.version(SDKS[cloud].replace('_', '-'))}"]
    if cloud == "aws":
        sources.append(f"botocore {importlib.metadata.version('botocore')}")
    builder = _SchemaBuilder(cloud, load_vendor_enums(cloud))
    described = {token: builder.describe_resource(token) for token in sorted(tokens)}
    return {
        "generated": f"python -m tools.provider_schema, from {', '.join(sources)}",
        "types": described,
        "objects": dict(sorted(builder.objects.items())),
        "enums": dict(sorted(builder.enums.items())),
    }


def format_schema(schema: dict[str, Any]) -> str:
    """Return JSON text with one type, object or enum a line, so that a difference can be read."""
    lines = ["{", f'"generated": {json.dumps(schema["generated"])},']
    for section in ("types", "objects", "enums"):
        entries = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in schema[section].items()]
        lines += [f'"{section}": {{', ",\n".join(entries), "}," if section != "enums" else "}"]
    return "\n".join([*lines, "}"]) + "\n"
