"""Evaluate a program in Pulumi YAML: an interpreter of the language, because no code runs in it.

The language is that of pulumi-yaml 1.25 (https://www.pulumi.com/docs/iac/languages-sdks/yaml/yaml-language-reference/).
Without the schema of a package, a property that a resource does not set is unknown, and a type gets its full token from
the rules of ``data/yaml_packages.json``.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.rpc import UNKNOWN as UNKNOWN_TEXT

from .program import InputError, LanguageProgram
from .yaml_text import Access, split_interpolation
from .yaml_text import Path as AccessPath

STACK, STACK_REFERENCE, PROVIDERS = "pulumi:pulumi:Stack", "pulumi:pulumi:StackReference", "pulumi:providers:"
SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET_MARK, REFERENCE_MARK = "1b47061264138c4ac30d75fd1eb44270", "5cf8f73096256a8f31e491e813e4eb8e"
ASSET_MARK, ARCHIVE_MARK = "c44067f5952c0a294b673a41bacd8c17", "0def7320c3a5731c473e5ecbe6d01bc7"
MAIN_FILES = ("Main.json", "Main.yaml", "Pulumi.yaml")
ASSETS = {
    "fn::stringasset": (ASSET_MARK, "text"),
    "fn::fileasset": (ASSET_MARK, "path"),
    "fn::remoteasset": (ASSET_MARK, "uri"),
    "fn::filearchive": (ARCHIVE_MARK, "path"),
    "fn::remotearchive": (ARCHIVE_MARK, "uri"),
}
SHORT_INVOKE = re.compile(r"fn::[^:]+:[^:]+(?::[^:]+)?")
FILE_BYTES = 16 << 20
PACKAGES = Path(__file__).parents[1] / "data" / "yaml_packages.json"


class Unknown:
    """A value that deployment decides."""


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Secret:
    """A value that is marked as secret."""

    value: Any


@dataclass(frozen=True)
class Computed:
    """A value that a provider returns: what it does not say yet is unknown."""

    value: Any


@dataclass
class Resource:
    """A registered resource, with its outputs as far as a preview knows them."""

    urn: str
    id: Any
    outputs: dict[str, Any]
    package: str = ""  # of a provider
    providers: dict[str, str] = field(default_factory=dict)

    @property
    def reference(self) -> str:
        """The reference of a provider, as a registration names it."""
        return f"{self.urn}::{UNKNOWN_TEXT if self.id is UNKNOWN else self.id}"


def evaluate(program: LanguageProgram, recorder: Any, read_yaml: Callable[[Path], dict[str, Any]]) -> None:
    """Evaluate a program; ``recorder`` then has its resources. Raise InputError where the engine would fail."""
    if program.options.get("compiler"):
        raise InputError(
            "another program writes the resources of this one: use --preview",
            program.root / "Pulumi.yaml",
            "compiler",
        )
    folder, _ = program.find_folder_and_entry()
    path = next((folder / name for name in MAIN_FILES if (folder / name).is_file()), folder / "Pulumi.yaml")
    template = read_yaml(path)
    try:
        _Evaluation(program, recorder, path, template).run()
    except RecursionError:
        raise InputError("refers to itself, or is nested too deep", path) from None


class _Evaluation:
    """One evaluation: the parts of the program, and what each name stands for once it was needed."""

    def __init__(
        self, program: LanguageProgram, recorder: Any, path: Path, template: Mapping[str, Any]
    ) -> None:
        self._program, self._recorder, self._path = program, recorder, path
        self._config = {**self._section(template, "configuration"), **self._section(template, "config")}
        self._variables = self._section(template, "variables")
        self._resources = self._section(template, "resources")
        self._outputs = self._section(template, "outputs")
        self._packages = json.loads(PACKAGES.read_text(encoding="utf-8"))
        self._values: dict[str, Any] = {}
        self._open: list[str] = []
        self._stack = ""
        self._default_providers: dict[str, str] = {}
        self._key = ""

    def run(self) -> None:
        """Register everything."""
        self._stack = self._register(STACK, f"{self._program.project}-{self._program.stack}", {}).urn
        defaults = [
            name
            for name, each in self._resources.items()
            if isinstance(each, dict) and each.get("defaultProvider") is True
        ]
        for name in defaults:
            provider = self.find(name)
            self._default_providers[provider.package] = provider.reference
        for name in (*self._resources, *self._variables):
            self.find(name)
        for name, value in self._outputs.items():
            self._key = name
            self.evaluate(value)

    def find(self, name: str) -> Any:
        """Return what a name stands for: a resource, a setting or a variable."""
        if name in self._values:
            return self._values[name]
        if name in self._open:
            raise self._error(f"circular dependency: {' -> '.join([*self._open, name])}", name)
        self._open.append(name)
        key, self._key = self._key, name
        value: Any
        if name in self._resources:
            value = self._register_declared(name, self._resources[name])
        elif name in self._variables:
            value = self.evaluate(self._variables[name])
        elif name == "pulumi":
            value = self._describe_run()
        else:
            value = self._find_setting(name)
        self._key = key
        self._open.pop()
        self._values[name] = value
        return value

    def evaluate(self, value: Any) -> Any:
        """Return the value of an expression."""
        if isinstance(value, str):
            return self._interpolate(value)
        if isinstance(value, list):
            return [self.evaluate(item) for item in value]
        if not isinstance(value, dict):
            return value if isinstance(value, (bool, int, float)) or value is None else str(value)
        if len(value) == 1:
            ((name, argument),) = value.items()
            lowered = str(name).lower()
            function = _FUNCTIONS.get(lowered)
            if function:
                return function(self, argument)
            if lowered in ASSETS:
                mark, key = ASSETS[lowered]
                return _lift(lambda text: {SIGNATURE: mark, key: text}, self.evaluate(argument))
            if SHORT_INVOKE.fullmatch(str(name)):
                arguments = argument if isinstance(argument, dict) else {}
                return self.invoke({"function": str(name)[4:], "arguments": arguments})
        return {str(key): self.evaluate(item) for key, item in value.items()}

    def _interpolate(self, text: str) -> Any:
        try:
            parts = split_interpolation(text)
        except ValueError as error:
            raise self._error(f"{text!r}: {error}") from None
        if len(parts) == 1 and parts[0].path and not parts[0].text:
            return self._access(parts[0].path)
        values = [self._access(part.path) if part.path else "" for part in parts]
        texts = [part.text for part in parts]
        return _lift(
            lambda *known: "".join(
                prefix + self._format(value) for prefix, value in zip(texts, known, strict=True)
            ),
            *values,
        )

    def _format(self, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if value is None:
            return ""
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        if isinstance(value, (dict, list, Resource)):
            raise self._error("a list or an object cannot be a part of a text")
        return str(value)

    def _access(self, path: AccessPath) -> Any:
        name, *steps = path
        return self.walk(self.find(str(name)), steps)

    def walk(self, value: Any, steps: list[Access]) -> Any:
        """Return what a path in a value leads to."""
        for index, step in enumerate(steps):
            if isinstance(value, Secret):
                return Secret(self.walk(value.value, steps[index:]))
            if isinstance(value, Resource):
                value = self._read_output(value, step)
                continue
            is_computed = isinstance(value, Computed)
            value = value.value if isinstance(value, Computed) else value
            if value is UNKNOWN:
                return UNKNOWN
            value = self._step(value, step, is_computed=is_computed)
            if is_computed and value is not UNKNOWN:
                value = Computed(value)
        return value.value if isinstance(value, Computed) else value

    def _read_output(self, resource: Resource, name: Access) -> Any:
        if name == "id":
            return resource.id
        if name == "urn":
            return resource.urn
        return Computed(resource.outputs[name]) if name in resource.outputs else UNKNOWN

    def _step(self, value: Any, step: Access, *, is_computed: bool) -> Any:
        missing = UNKNOWN if is_computed else None
        if isinstance(value, dict):
            if SIGNATURE in value or isinstance(step, int):
                if is_computed:
                    return UNKNOWN
                raise self._error(f"an object has no item {step}")
            return value.get(step, missing)
        if isinstance(value, list) and isinstance(step, int):
            if step < len(value):
                return value[step]
            if is_computed:
                return UNKNOWN
            raise self._error(f"list index {step} is out of bounds for a list of {len(value)}")
        if is_computed:
            return UNKNOWN
        raise self._error(f"{step!r} is not in a value that is neither a list nor an object")

    # Resources

    def _register_declared(self, name: str, declared: Any) -> Resource:
        if not isinstance(declared, dict) or not isinstance(declared.get("type"), str):
            raise self._error("a resource must have a type", name)
        options = self._mapping(declared.get("options"), "options")
        type_ = self.resolve_type(declared["type"])
        properties = self._mapping_or_unknown(self.evaluate(declared.get("properties") or {}))
        resource_name = declared.get("name") if isinstance(declared.get("name"), str) else name
        read = self._mapping(declared.get("get"), "get")
        if type_ == STACK_REFERENCE:
            properties.setdefault("name", name)
            read = {"id": properties["name"]}
        if "id" in read:
            return self._read(type_, str(resource_name), read, properties)
        return self._register(type_, str(resource_name), properties, options)

    def _read(self, type_: str, name: str, read: Mapping[str, Any], properties: dict[str, Any]) -> Resource:
        state = properties or self._mapping_or_unknown(self.evaluate(read.get("state") or {}))
        identity = self.evaluate(read["id"])
        request = resource_pb2.ReadResourceRequest(
            type=type_, name=name, id=str(to_wire(identity)), parent=self._stack, properties=_to_struct(state)
        )
        response = self._recorder.ReadResource(request)
        return Resource(response.urn, identity, _from_struct(response.properties))

    def _register(
        self, type_: str, name: str, inputs: dict[str, Any], options: Mapping[str, Any] | None = None
    ) -> Resource:
        options = options or {}
        package = type_.split(":", maxsplit=1)[0]
        is_component = type_ == STACK or package in self._packages["components"]
        parent = self.evaluate(options.get("parent"))
        request = resource_pb2.RegisterResourceRequest(
            type=type_,
            name=name,
            parent=parent.urn if isinstance(parent, Resource) else self._stack,
            custom=not is_component,
            remote=is_component and type_ != STACK,
            object=_to_struct(inputs),
            protect=self.evaluate(options.get("protect")) is True,
            retainOnDelete=options.get("retainOnDelete") is True,
            ignoreChanges=self._texts(options.get("ignoreChanges"), "ignoreChanges"),
            aliasURNs=self._texts(options.get("aliases"), "aliases"),
        )
        providers = self._find_providers(options, parent)
        request.provider = "" if type_.startswith(PROVIDERS) else providers.get(package, "")
        request.providers.update(providers)
        response = self._recorder.RegisterResource(request)
        outputs = _from_struct(response.object)
        own = type_.removeprefix(PROVIDERS) if type_.startswith(PROVIDERS) else ""
        return Resource(response.urn, UNKNOWN, outputs, own, providers)

    def _find_providers(self, options: Mapping[str, Any], parent: Any) -> dict[str, str]:
        """Return the provider of each package that a resource is given: by itself, its parent, or the program."""
        listed = self.evaluate(options.get("providers")) or []
        listed = list(listed.values()) if isinstance(listed, dict) else listed
        own = [*(listed if isinstance(listed, list) else [listed]), self.evaluate(options.get("provider"))]
        return {
            **self._default_providers,
            **(parent.providers if isinstance(parent, Resource) else {}),
            **{each.package: each.reference for each in own if isinstance(each, Resource)},
        }

    def resolve_type(self, text: str) -> str:
        """Return the full token of a type or a function: ``aws:ec2:Instance`` is ``aws:ec2/instance:Instance``."""
        parts = text.split(":")
        if not 2 <= len(parts) <= 3:  # noqa: PLR2004 - with or without a module
            raise self._error(f"{text!r} is not a type: for example aws:ec2:Instance")
        if parts[0] == "pulumi":
            return text
        package, module, name = parts if len(parts) == 3 else (parts[0], "index", parts[1])  # noqa: PLR2004
        is_native = package in self._packages["components"] or package in self._packages["native"]
        if is_native or "/" in module:
            return f"{package}:{module}:{name}"
        return f"{package}:{module}/{name[0].lower()}{name[1:]}:{name}"

    # Functions

    def invoke(self, argument: Any) -> Any:
        """Look something up; what a lookup is not known to return is unknown."""
        parts = {str(key).lower(): value for key, value in self._mapping(argument, "fn::invoke").items()}
        token = parts.get("function")
        if not isinstance(token, str):
            raise self._error("fn::invoke must have a function")
        full_token = self.resolve_type(token)

        def ask(arguments: Any) -> Any:
            request = resource_pb2.ResourceInvokeRequest(tok=full_token, args=_to_struct(arguments))
            answer = _from_struct(getattr(self._recorder.Invoke(request), "return"))
            wanted = parts.get("return")
            if wanted is None:
                return Computed(answer)
            return Computed(answer[wanted]) if wanted in answer else UNKNOWN

        return _lift(ask, self.evaluate(parts.get("arguments") or {}))

    def join(self, argument: Any) -> Any:
        """Join texts."""
        delimiter, values = self._pair(argument, "fn::join")

        def join(by: Any, items: Any) -> str:
            if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
                raise self._error("the second argument of fn::join must be a list of texts")
            return str(by or "").join(items)

        return _lift(join, delimiter, values)

    def split(self, argument: Any) -> Any:
        """Split a text."""
        delimiter, text = self._pair(argument, "fn::split")

        def split(by: Any, source: Any) -> list[str]:
            if not isinstance(by, str) or not isinstance(source, str):
                raise self._error("both arguments of fn::split must be texts")
            return source.split(by) if by else list(source)

        return _lift(split, delimiter, text)

    def select(self, argument: Any) -> Any:
        """Select an item of a list."""
        index, values = self._pair(argument, "fn::select")
        if index is UNKNOWN:
            return UNKNOWN
        if isinstance(index, bool) or not isinstance(index, (int, float)) or index < 0 or index != int(index):
            raise self._error("the first argument of fn::select must be a whole number")
        return self.walk(values, [int(index)])

    def to_json(self, argument: Any) -> Any:
        """Return JSON text, as Go writes it."""
        return _lift(_write_json, self.evaluate(argument))

    def to_base64(self, argument: Any) -> Any:
        """Encode a text."""
        return _lift(lambda text: base64.b64encode(str(text).encode()).decode(), self.evaluate(argument))

    def from_base64(self, argument: Any) -> Any:
        """Decode a text."""

        def decode(text: Any) -> str:
            try:
                return base64.b64decode(str(text), validate=True).decode()
            except (binascii.Error, UnicodeDecodeError) as error:
                raise self._error(f"fn::fromBase64 cannot decode its argument: {error}") from None

        return _lift(decode, self.evaluate(argument))

    def mark_secret(self, argument: Any) -> Any:
        """Mark a value as secret."""
        return Secret(self.evaluate(argument))

    def read_file(self, argument: Any) -> Any:
        """Read a file; the process is confined to what git tracks."""

        def read(path: Any) -> str:
            place = self._path.parent / str(path)
            try:
                with place.open("rb") as file:
                    return file.read(FILE_BYTES).decode()
            except (OSError, UnicodeDecodeError) as error:
                problem = f"fn::readFile cannot read {str(path)!r}: {getattr(error, 'strerror', error)}"
                raise self._error(problem) from None

        return _lift(read, self.evaluate(argument))

    def read_stack_reference(self, argument: Any) -> Any:
        """Return an output of another stack."""
        name, output = self._pair(argument, "fn::stackReference")
        key = f"\0{name}"
        if key not in self._values:
            self._values[key] = self._read(STACK_REFERENCE, str(name), {"id": name}, {"name": name})
        return self.walk(self._values[key], ["outputs", str(output)])

    def make_archive(self, argument: Any) -> Any:
        """Return an archive of assets."""
        return {SIGNATURE: ARCHIVE_MARK, "assets": self.evaluate(argument)}

    # Settings

    def _describe_run(self) -> dict[str, str]:
        return {
            "cwd": str(self._path.parent),
            "rootDirectory": str(self._program.root),
            "project": self._program.project,
            "stack": self._program.stack,
            "organization": "organization",
        }

    def _find_setting(self, name: str) -> Any:
        """Return a setting: of the stack's file, else the default of the program."""
        plain = name.removeprefix(f"{self._program.project}:")
        declared = self._config.get(plain, self._config.get(name))
        declaration = declared if isinstance(declared, dict) else {}
        key = str(declaration.get("name") or plain)
        full_key = key if ":" in key else f"{self._program.project}:{key}"
        text = self._program.configuration.get(full_key)
        if text is not None:
            value = self._parse_setting(key, text, declaration)
        elif isinstance(declared, dict):
            value = self.evaluate(declared.get("value", declared.get("default")))
        elif declared is not None:
            value = self.evaluate(declared)
        else:
            raise self._error(f"resource or variable named {name!r} could not be found")
        if value is None:
            remedy = f"give it in Pulumi.{self._program.stack}.yaml"
            raise InputError("missing required configuration variable", self._path, full_key, remedy)
        is_secret = full_key in self._program.secret_keys or declaration.get("secret") is True
        return Secret(value) if is_secret else value

    def _parse_setting(self, key: str, text: str, declaration: Mapping[str, Any]) -> Any:
        """Return a setting of the stack's file as its declared type; without one as its text reads."""
        type_ = str(declaration.get("type") or "").lower()
        default = declaration.get("default")
        if type_ == "string" or (not type_ and isinstance(default, str)):
            return text
        try:
            value = json.loads(text)
        except ValueError:
            if not type_ and default is None:
                return text
            raise self._error(f"{text!r} is not of type {type_ or type(default).__name__}", key) from None
        return value

    # Checks

    def _section(self, template: Mapping[str, Any], name: str) -> dict[str, Any]:
        section = template.get(name) or {}
        if name == "config" and isinstance(section, str):  # an old name of stackConfigDir
            return {}
        if not isinstance(section, dict):
            raise InputError("must be a mapping", self._path, name)
        return {str(key): value for key, value in section.items()}

    def _mapping(self, value: Any, name: str) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._error(f"{name} must be a mapping")
        return value

    def _mapping_or_unknown(self, value: Any) -> dict[str, Any]:
        """Return evaluated properties; the engine sets every property of the schema where they are unknown."""
        value = value.value if isinstance(value, (Secret, Computed)) else value
        if not isinstance(value, dict):
            problem = "are not known until deployment" if value is UNKNOWN else "must be a mapping"
            raise self._error(f"the properties {problem}")
        return value

    def _texts(self, value: Any, name: str) -> list[str]:
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._error(f"{name} must be a list of texts")
        return list(value)

    def _pair(self, argument: Any, name: str) -> tuple[Any, Any]:
        if not isinstance(argument, list) or len(argument) != 2:  # noqa: PLR2004 - a pair
            raise self._error(f"the argument of {name} must be a list of two values")
        first, second = (self.evaluate(item) for item in argument)
        return first, second

    def _error(self, problem: str, name: str = "") -> InputError:
        return InputError(problem, self._path, name or self._key)


_FUNCTIONS: dict[str, Callable[[_Evaluation, Any], Any]] = {
    "fn::invoke": _Evaluation.invoke,
    "fn::join": _Evaluation.join,
    "fn::split": _Evaluation.split,
    "fn::select": _Evaluation.select,
    "fn::tojson": _Evaluation.to_json,
    "fn::tobase64": _Evaluation.to_base64,
    "fn::frombase64": _Evaluation.from_base64,
    "fn::secret": _Evaluation.mark_secret,
    "fn::readfile": _Evaluation.read_file,
    "fn::stackreference": _Evaluation.read_stack_reference,
    "fn::assetarchive": _Evaluation.make_archive,
}


def _write_json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    for character in "&<>\u2028\u2029":  # as Go's encoder does
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _lift(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply a function to known values: unknown if one of them is, or has a part that is; secret likewise."""
    plain, is_unknown, is_secret = [], False, False
    for argument in arguments:
        value, has_unknown, has_secret = _open(argument)
        plain.append(value)
        is_unknown, is_secret = is_unknown or has_unknown, is_secret or has_secret
    result = UNKNOWN if is_unknown else function(*plain)
    return Secret(result) if is_secret else result


def _open(value: Any) -> tuple[Any, bool, bool]:
    """Return a value without marks, whether a part of it is unknown, and whether one is secret."""
    if value is UNKNOWN:
        return value, True, False
    if isinstance(value, Secret):
        inner, is_unknown, _ = _open(value.value)
        return inner, is_unknown, True
    if isinstance(value, Computed):
        return _open(value.value)
    if isinstance(value, list):
        items = [_open(item) for item in value]
        return [item[0] for item in items], any(item[1] for item in items), any(item[2] for item in items)
    if isinstance(value, dict):
        opened = {key: _open(item) for key, item in value.items()}
        plain = {key: item[0] for key, item in opened.items()}
        return plain, any(item[1] for item in opened.values()), any(item[2] for item in opened.values())
    return value, value == UNKNOWN_TEXT, False


def to_wire(value: Any) -> Any:
    """Return a value as the engine's protocol has it."""
    if value is UNKNOWN:
        return UNKNOWN_TEXT
    if isinstance(value, Secret):
        return {SIGNATURE: SECRET_MARK, "value": to_wire(value.value)}
    if isinstance(value, Computed):
        return to_wire(value.value)
    if isinstance(value, Resource):
        return {SIGNATURE: REFERENCE_MARK, "urn": value.urn, "id": "" if value.id is UNKNOWN else value.id}
    if isinstance(value, list):
        return [to_wire(item) for item in value]
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in value.items() if item is not None}
    return value


def _to_struct(value: Mapping[str, Any]) -> Struct:
    message = Struct()
    message.update(to_wire(dict(value)))
    return message


def _from_struct(message: Any) -> dict[str, Any]:
    """Return a message as values of this module."""
    return {key: _from_wire(item) for key, item in MessageToDict(message).items()}


def _from_wire(value: Any) -> Any:
    if value == UNKNOWN_TEXT:
        return UNKNOWN
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_from_wire(item) for item in value]
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET_MARK:
            return Secret(_from_wire(value.get("value")))
        return {key: _from_wire(item) for key, item in value.items()}
    return value
