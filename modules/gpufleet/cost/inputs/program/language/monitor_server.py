"""Serve the monitor over gRPC, for a program that runs in a process of its own: any language with a Pulumi SDK.

The server listens on a Unix socket in the temporary folder of the evaluation. What the program sends is decoded in
this process, which is as confined as the program, and the records that leave it are judged like a Python program's.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import (
    callback_pb2,
    callback_pb2_grpc,
    engine_pb2,
    engine_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
)
from pulumi.runtime.rpc import UNKNOWN

from .program import ProgramCommand

MIB = 1 << 20
ListOutputs = Callable[[str], Iterable[str]]
MESSAGE_BYTES = 64 * MIB  # of one request; an archive of a function may be in it
CALLBACK_LIMIT_S = 60
WORKERS = 32  # a transform is called while its registration waits
MAX_ERRORS = 20
# Outputs as values of their own would reach the records; without the feature a secret or an unknown is a marked value.
UNSUPPORTED_FEATURES = ("outputValues", "invokeDependsOn")
OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
)


class ProgramFailedError(Exception):
    """The program failed. Its text is the first error that it reported."""


class CallbackFailedError(Exception):
    """A function that the program serves, such as a transform, failed."""


class ProgramEndedError(Exception):
    """The program's process failed, and reported no error: its output may say why."""


@dataclass
class EngineService(engine_pb2_grpc.EngineServicer):
    """Record the errors that a program logs, and its root resource."""

    errors: list[str] = field(default_factory=list)
    root: str = ""

    def Log(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        if request.severity == engine_pb2.ERROR and len(self.errors) < MAX_ERRORS:
            self.errors.append(request.message)
        return empty_pb2.Empty()

    def GetRootResource(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        return engine_pb2.GetRootResourceResponse(urn=self.root)

    def SetRootResource(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        self.root = request.urn
        return engine_pb2.SetRootResourceResponse()

    def StartDebugging(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        return empty_pb2.Empty()

    def RequirePulumiVersion(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        return engine_pb2.RequirePulumiVersionResponse()


class MonitorService(resource_pb2_grpc.ResourceMonitorServicer):
    """Answer a program's requests from a ``monitor.RecordingMonitor``, one at a time, and call its transforms.

    ``list_outputs`` names the outputs of a lookup: those that are not answered are unknown, as in a preview of one that
    depends on a new resource.
    """

    def __init__(self, recorder: Any, list_outputs: ListOutputs | None = None) -> None:
        self._recorder = recorder
        self._list_outputs = list_outputs or (lambda _: ())
        self._lock = RLock()
        self._stack_transforms: list[Any] = []
        self._invoke_transforms: list[Any] = []
        self._transforms: dict[str, list[Any]] = {}  # of the children of a resource, by its URN

    def GetDeploymentInfo(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        return self._recorder.GetDeploymentInfo(request)

    def SupportsFeature(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        return resource_pb2.SupportsFeatureResponse(hasSupport=request.id not in UNSUPPORTED_FEATURES)

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        for callback in self._invoke_transforms:
            answer = _transform_invoke(callback, request)
            if answer.HasField("args"):
                request.args.CopyFrom(answer.args)
        with self._lock:
            response = self._recorder.Invoke(request)
        outputs = getattr(response, "return")
        for name in self._list_outputs(request.tok):
            if name not in outputs:
                outputs[name] = UNKNOWN
        return response

    def Call(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        with self._lock:
            return self._recorder.Call(request)

    def ReadResource(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        with self._lock:
            return self._recorder.ReadResource(request)

    def RegisterResource(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        own = list(request.transforms)
        inherited = self._transforms.get(request.parent, [])
        for callback in (*own, *inherited, *self._stack_transforms):
            _transform_resource(callback, request)
        with self._lock:
            response = self._recorder.RegisterResource(request)
            if own or inherited:
                self._transforms[response.urn] = [*own, *inherited]
            return response

    def RegisterResourceOutputs(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        with self._lock:
            return self._recorder.RegisterResourceOutputs(request)

    def RegisterStackTransform(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        self._stack_transforms.append(request)
        return empty_pb2.Empty()

    def RegisterStackInvokeTransform(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's
        self._invoke_transforms.append(request)
        return empty_pb2.Empty()

    def RegisterResourceHook(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        return empty_pb2.Empty()  # hooks run at a deployment

    def RegisterErrorHook(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        return empty_pb2.Empty()

    def RegisterPackage(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        return self._recorder.RegisterPackage(request)

    def SignalAndWaitForShutdown(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the engine's interface
        return empty_pb2.Empty()


def run_program(
    recorder: Any, make_command: Callable[[str], ProgramCommand], list_outputs: ListOutputs | None = None
) -> None:
    """Run a program until it ends; ``recorder`` then has its resources.

    ``make_command`` gets the address of the monitor and engine, such as ``unix:/tmp/x/monitor``, and returns the
    command that starts the program. Its output is this process's. Raise ProgramFailedError or
    ProgramEndedError if it fails.
    """
    engine = EngineService()
    with serve_monitor(MonitorService(recorder, list_outputs), engine) as address:
        command = make_command(address)
        completed = subprocess.run(
            command.arguments,
            cwd=command.folder,
            env=dict(command.variables),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    if engine.errors:
        raise ProgramFailedError(engine.errors[0])
    if completed.returncode:
        raise ProgramEndedError


@contextmanager
def serve_monitor(monitor: MonitorService, engine: EngineService) -> Iterator[str]:
    """Serve a monitor and an engine at one address, which gRPC's clients in each language accept."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-", ignore_cleanup_errors=True) as folder:
        server = grpc.server(ThreadPoolExecutor(WORKERS), options=OPTIONS)
        resource_pb2_grpc.add_ResourceMonitorServicer_to_server(monitor, server)
        engine_pb2_grpc.add_EngineServicer_to_server(engine, server)
        address = f"unix:{folder}/monitor"
        server.add_insecure_port(address)
        server.start()
        try:
            yield address
        finally:
            server.stop(grace=None)


def _transform_resource(callback: Any, request: Any) -> None:
    """Replace a registration's inputs and options by those that a transform of the program returns."""
    question = resource_pb2.TransformRequest(
        type=request.type,
        name=request.name,
        custom=request.custom,
        parent=request.parent,
        properties=request.object,
        options=_build_transform_options(request),
    )
    answer = resource_pb2.TransformResponse.FromString(_call_back(callback, question))
    if answer.HasField("properties"):
        request.object.CopyFrom(answer.properties)
    if answer.HasField("options"):
        _apply_transform_options(answer.options, request)


def _build_transform_options(request: Any) -> Any:
    options = resource_pb2.TransformResourceOptions(
        ignore_changes=request.ignoreChanges,
        aliases=request.aliases,
        depends_on=request.dependencies,
        provider=request.provider,
        providers=dict(request.providers),
        version=request.version,
    )
    if request.protect:
        options.protect = True
    if request.retainOnDelete:
        options.retain_on_delete = True
    return options


def _apply_transform_options(options: Any, request: Any) -> None:
    del request.ignoreChanges[:]
    request.ignoreChanges.extend(options.ignore_changes)
    del request.aliases[:]
    request.aliases.extend(options.aliases)
    request.provider = options.provider
    request.protect = options.protect
    request.retainOnDelete = options.retain_on_delete


def _transform_invoke(callback: Any, request: Any) -> Any:
    question = resource_pb2.TransformInvokeRequest(token=request.tok, args=request.args)
    return resource_pb2.TransformInvokeResponse.FromString(_call_back(callback, question))


def _call_back(callback: Any, question: Any) -> bytes:
    """Call a function of the program, which it serves itself; raise CallbackFailedError with its error."""
    with grpc.insecure_channel(callback.target, options=OPTIONS) as channel:
        stub = callback_pb2_grpc.CallbacksStub(channel)
        request = callback_pb2.CallbackInvokeRequest(
            token=callback.token, request=question.SerializeToString()
        )
        try:
            return bytes(stub.Invoke(request, timeout=CALLBACK_LIMIT_S).response)
        except grpc.RpcError as error:
            raise CallbackFailedError(error.details()) from None
