"""The monitor that an evaluated program registers its resources with, instead of the engine.

``child`` loads it by its file; it imports nothing of gpufleet. It answers like an engine in a preview: what is
created has no id yet, a reference to a resource is its unknown id, and a remote component has no outputs yet.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from google.protobuf import empty_pb2, struct_pb2
from google.protobuf.json_format import MessageToDict
from pulumi.runtime import mocks
from pulumi.runtime.proto import provider_pb2, resource_pb2
from pulumi.runtime.rpc import UNKNOWN
from pulumi.runtime.settings import configure

# What look-ups are answered with, from the project's file: token, the arguments that must match, and the result.
ANSWERS: list[dict[str, Any]] = []
UNANSWERED: list[str] = []  # the tokens of look-ups that got placeholders
STACK = "pulumi:pulumi:Stack"  # the one type that the engine leaves out of its children's URNs
STACK_REFERENCE = "pulumi:pulumi:StackReference"
LOOKUPS = Path(__file__).parent / "data" / "lookups.json"
SIGNATURE, RESOURCE_REFERENCE = "4dabf18193072939515e22adb298388d", "5cf8f73096256a8f31e491e813e4eb8e"
GET_RESOURCE = "pulumi:pulumi:getResource"
# Outputs of remote components that are resources: their packages use the URN of one while they register the next.
CHILD_OUTPUTS = {"eks:index:Cluster": {"eksCluster": "aws:eks/cluster:Cluster"}}


class MockProviderLookups(mocks.Mocks):
    """Invokes that would need the network: they return their arguments and a mark."""

    def __init__(self, region: str) -> None:
        self.region = region

    def call(self, args: mocks.MockCallArgs) -> Any:
        return mock_lookup_result(args.token, args.args, self.region)

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        return args.resource_id or "", args.inputs


class RecordingMonitor(mocks.MockMonitor):
    """Answer like an engine in a preview, and record each registration as in a state."""

    def __init__(self, name: str, stack: str, providers: dict[str, dict[str, str]]) -> None:
        super().__init__(MockProviderLookups(providers.get("aws", {}).get("region", "us-east-1")))
        self.name, self.stack, self.providers = name, stack, providers
        self.records: dict[str, dict[str, Any]] = {}
        self.states: dict[str, Any] = {}  # what a reference to a resource is answered with, by URN
        self.registered: set[str] = set()
        self.stack_outputs: dict[
            str, dict[str, Any]
        ] = {}  # of other stacks, as far as the project's file has them
        self.transforms: Any = None  # of ``transform``
        self.duplicates: list[
            tuple[str, str]
        ] = []  # URN and place of a second registration, which the engine refuses

    def make_urn(self, parent: str, type_: str, resource: str) -> str:
        """Return a URN. Registrations arrive on threads without the settings, so it takes all parts."""
        parent_types = parent.split("::")[2] if parent else STACK
        types = type_ if parent_types == STACK else f"{parent_types}${type_}"
        return f"urn:pulumi:{self.stack}::{self.name}::{types}::{resource}"

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the engine's name
        urn = self.make_urn(request.parent, request.type, request.name)
        if self.transforms and request.type != STACK:
            self.transforms.apply(request, urn)
        inputs = MessageToDict(request.object)
        if request.custom:  # a provider gets the id of a resource that is passed as an input
            inputs = replace_references_by_ids(inputs)
        state = struct_pb2.Struct()
        state.update(
            refer_to_children(urn, request) if request.remote else answer_like_provider(request.type, inputs)
        )
        self.states[urn] = state
        if request.type != STACK:
            if urn in self.registered:
                self.duplicates.append((urn, format_source_position(request)))
            self.registered.add(urn)
            self.records[urn] = build_state_record(urn, request, inputs)
            self.records[urn]["provider"] = request.provider or self.record_default_provider(request)
        return resource_pb2.RegisterResourceResponse(urn=urn, id="", object=state)

    def record_default_provider(self, request: Any) -> str:
        """Return the reference to a package's default provider, and record it because of its region."""
        package = request.type.split(":")[0]
        if not request.custom or request.type.startswith("pulumi:"):
            return ""
        urn = self.make_urn("", f"pulumi:providers:{package}", "default")
        provider_record = {"urn": urn, "type": f"pulumi:providers:{package}", "custom": True}
        self.records.setdefault(
            urn, {**provider_record, "inputs": self.providers.get(package, {}), "outputs": {}}
        )
        return f"{urn}::default"

    def Invoke(self, request: Any) -> Any:  # noqa: N802 - the engine's name
        """Answer a lookup; one of a resource of this program, which a reference starts, with its properties."""
        if request.tok != GET_RESOURCE:
            return super().Invoke(request)  # type: ignore[no-untyped-call]  # the SDK has no types
        answer = struct_pb2.Struct()
        urn = request.args["urn"]
        answer.update({"urn": urn, "id": "", "state": {}})
        if urn in self.states:
            answer["state"].update(self.states[urn])
        return resource_pb2.ResourceInvokeResponse(**{"return": answer})

    def RegisterStackTransform(self, callback: Any) -> Any:  # noqa: N802 - the engine's name
        self.transforms.register_stack_transform(callback.token)
        return empty_pb2.Empty()

    def RegisterStackInvokeTransform(self, callback: Any) -> Any:  # noqa: ARG002, N802 - the engine's name
        return empty_pb2.Empty()  # what a look-up is asked changes no placeholder

    def RegisterResourceHook(self, request: Any) -> Any:  # noqa: ARG002, N802 - the engine's name
        return empty_pb2.Empty()

    def RegisterErrorHook(self, request: Any) -> Any:  # noqa: ARG002, N802 - the engine's name
        return empty_pb2.Empty()

    def Call(self, request: Any) -> Any:  # noqa: ARG002, N802 - the engine's name; a remote component's method
        return provider_pb2.CallResponse()

    def ReadResource(self, request: Any) -> Any:  # noqa: N802 - the engine's name
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == STACK_REFERENCE and request.id in self.stack_outputs:
            known = {"name": request.id, "outputs": self.stack_outputs[request.id], "secretOutputNames": []}
            request.properties.update(known)
        self.states[urn] = request.properties
        return resource_pb2.ReadResourceResponse(urn=urn, properties=request.properties)

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802 - the engine's name
        if request.urn in self.records:
            self.records[request.urn]["outputs"] = MessageToDict(request.outputs)
        return empty_pb2.Empty()


def format_source_position(request: Any) -> str:
    """Return the file and line that register a resource, empty if the SDK does not send them."""
    position = getattr(request, "sourcePosition", None)  # an older SDK has no such field
    path = str(position.uri).removeprefix("file://").removeprefix("project://") if position else ""
    return f"{unquote(path)}:{position.line}" if position and path else ""


def replace_references_by_ids(value: Any) -> Any:
    """Return a value with each reference to a resource as its id, or as its URN where it is a component."""
    if isinstance(value, list):
        return [replace_references_by_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get(SIGNATURE) == RESOURCE_REFERENCE:
        return (value["id"] or UNKNOWN) if "id" in value else value.get("urn", UNKNOWN)
    return {key: replace_references_by_ids(item) for key, item in value.items()}


def refer_to_children(urn: str, request: Any) -> dict[str, Any]:
    """Return the outputs of a remote component that are resources, as references; the others are unknown."""
    place = urn.rpartition("::")[0]
    return {
        output: {SIGNATURE: RESOURCE_REFERENCE, "urn": f"{place}${type_}::{request.name}", "id": ""}
        for output, type_ in CHILD_OUTPUTS.get(request.type, {}).items()
    }


def answer_like_provider(type_: str, value: Any) -> Any:
    """Return inputs as the provider's outputs.

    AWS answers a policy document that is an object with JSON text; Azure a list of assigned identities with a map
    by id.
    """
    if isinstance(value, dict) and type_.startswith("aws:"):
        return write_policies_as_text(value)
    if isinstance(value, list):
        return [answer_like_provider(type_, item) for item in value]
    if not isinstance(value, dict) or not type_.startswith("azure-native:"):
        return value
    outputs = {key: answer_like_provider(type_, item) for key, item in value.items()}
    identities = outputs.get("userAssignedIdentities")
    if isinstance(identities, list):
        outputs["userAssignedIdentities"] = {str(each): {} for each in identities}
    return outputs


def write_policies_as_text(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs with each policy document that is an object as JSON text, as the provider of AWS keeps it."""
    return {
        name: json.dumps(value) if isinstance(value, dict) and "Statement" in value else value
        for name, value in inputs.items()
    }


def build_state_record(urn: str, request: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return a registration as a record of a state."""
    return {
        "urn": urn,
        "type": request.type,
        "custom": request.custom,
        "inputs": inputs,
        "outputs": {},
        "parent": request.parent,
        "provider": request.provider,
        "protect": request.protect,
        "retainOnDelete": request.retainOnDelete,
        "remote": request.remote,
        "ignoreChanges": list(request.ignoreChanges),
        "aliases": list_aliases(request),
        "propertyDependencies": {
            name: list(dependencies.urns) for name, dependencies in request.propertyDependencies.items()
        },
    }


def list_aliases(request: Any) -> list[dict[str, Any]]:
    """Return the aliases of a registration, URNs and parts of URNs, in their order."""
    aliases = [{"urn": urn} for urn in request.aliasURNs]
    for alias in request.aliases:
        spec = alias.spec
        parts = {"name": spec.name, "type": spec.type, "stack": spec.stack, "project": spec.project}
        parts |= {"parent": spec.parentUrn, "noParent": spec.noParent}
        aliases.append({"urn": alias.urn} if alias.urn else parts)
    return aliases


def mock_lookup_result(token: str, arguments: dict[str, Any], region: str) -> dict[str, Any]:
    """Answer an invoke from the project's file, else with its arguments, placeholders and known shapes."""
    for answer in ANSWERS:
        expected = answer.get("args") or {}
        if answer["token"] == token and all(arguments.get(key) == expected[key] for key in expected):
            return {**arguments, **answer["result"]}
    UNANSWERED.append(token)
    mark = f"<{token}>{describe_image(arguments)}"
    response = {"id": mark, "name": f"<{token}>", "value": mark, "selfLink": mark, **arguments}
    shape = json.loads(LOOKUPS.read_text(encoding="utf-8")).get(token, {})
    region_name = arguments.get("region") or region
    filled_shape = json.loads(json.dumps(shape).replace("{region}", str(region_name)))
    return {**response, **{key: value for key, value in filled_shape.items() if key not in arguments}}


def describe_image(arguments: dict[str, Any]) -> str:
    """Return what a look-up says about the image that it looks for: its name tells the system and its disk."""
    filters = [each for each in arguments.get("filters") or () if isinstance(each, dict)]
    names = [name for each in filters if each.get("name") == "name" for name in each.get("values") or ()]
    name = arguments.get("name")
    if isinstance(name, str) and name.startswith("/aws/service/"):
        names.append(name)
    names += [
        f"{arguments['project']}/{arguments[key]}"
        for key in ("family",)
        if {"project", key} <= arguments.keys()
    ]
    return "".join(f" {each}" for each in names if isinstance(each, str))


def install_mock_monitor(monitor: Any, name: str, stack: str) -> None:
    """Install a monitor instead of the engine; ``set_mocks`` would add a stack resource."""
    mock_settings: Any = mocks.MockSettings
    features = set(monitor.GetDeploymentInfo(None).supportedFeatures)
    stack_settings = {"project": name, "stack": stack, "dry_run": True, "organization": None}
    configure(
        mock_settings(
            monitor=monitor, monitor_features=features, engine=mocks.MockEngine(None), **stack_settings
        )
    )
