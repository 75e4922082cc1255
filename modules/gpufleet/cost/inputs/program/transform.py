"""Resource transforms and hooks of an evaluated program, run in its own process as the engine would call them.

``child`` loads it by its file; it imports nothing of gpufleet. The SDK would start a server for the engine's calls;
here the monitor calls the same functions directly: a confined program has no network. Hooks are accepted and run for no
preview, as the engine does unless they ask for it: they decide nothing that bills.

The order is the engine's (pulumi/pulumi pkg/resource/deploy/source_eval.go): a resource's own transforms, those of its
parents, nearest first, then those of the stack.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pulumi.runtime import settings
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.rpc import UNKNOWN

TIMEOUT_S = 60
# The options that a transform may change and that decide about costs: of a transform, of a registration.
OPTIONS = {
    "protect": "protect",
    "retain_on_delete": "retainOnDelete",
    "provider": "provider",
    "version": "version",
}
LISTS = {"ignore_changes": "ignoreChanges", "aliases": "aliases"}


def install_transforms(monitor: Any) -> None:
    """Let the SDK register transforms and hooks with the monitor; one of an SDK without them stays as it is."""
    try:
        from pulumi.runtime._callbacks import _CallbackServicer
    except ImportError:
        return

    class InProcessCallbacks(_CallbackServicer):
        """The SDK's functions by token, without the server that would call them."""

        def __init__(self) -> None:
            self._callbacks: Any = {}
            self._transforms: Any = {}
            self._monitor: Any = monitor
            self._target = "in-process"

        def register_transform(self, transform: Any) -> Any:
            monitor.transforms.loop = asyncio.get_running_loop()
            return super().register_transform(transform)

    settings.SETTINGS.callbacks = InProcessCallbacks()
    monitor.transforms = TransformChain(settings.SETTINGS.callbacks)


class TransformChain:
    """The registered transforms by the resource that has them, and those of the stack."""

    def __init__(self, callbacks: Any) -> None:
        self.callbacks = callbacks
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stack: list[str] = []
        self.by_urn: dict[str, list[str]] = {}
        self.parents: dict[str, str] = {}

    def register_stack_transform(self, token: str) -> None:
        """Add a transform of all resources that are registered from now on."""
        self.stack.append(token)

    def apply(self, request: Any, urn: str) -> None:
        """Change a registration as its transforms say. It is called on a thread, and they run on the program's loop."""
        self.by_urn[urn] = [each.token for each in getattr(request, "transforms", ())]
        self.parents[urn] = request.parent
        tokens, current = [], urn
        while current:
            tokens += self.by_urn.get(current, [])
            current = self.parents.get(current, "")
        for token in (*tokens, *self.stack):
            self._apply_one(request, token)

    def _apply_one(self, request: Any, token: str) -> None:
        question = resource_pb2.TransformRequest(
            type=request.type,
            name=request.name,
            custom=request.custom,
            parent=request.parent,
            properties=request.object,
            options=_read_options(request),
        )
        call = self.callbacks._callbacks[token](question.SerializeToString())  # noqa: SLF001 - the SDK's own table
        answer = asyncio.run_coroutine_threadsafe(call, self.loop).result(TIMEOUT_S)  # type: ignore[arg-type]
        unknown = {
            key: value
            for key, value in request.object.fields.items()
            if UNKNOWN in value.SerializeToString().decode("utf-8", "ignore")
        }
        request.object.CopyFrom(answer.properties)
        for key, value in unknown.items():  # the SDK hands a transform nothing for what deployment decides
            if key not in request.object.fields or request.object.fields[key].HasField("null_value"):
                request.object.fields[key].CopyFrom(value)
        if answer.HasField("options"):
            _write_options(request, answer.options)


def _read_options(request: Any) -> Any:
    options = resource_pb2.TransformResourceOptions()
    for name, field in OPTIONS.items():
        if value := getattr(request, field):
            setattr(options, name, value)
    for name, field in LISTS.items():
        getattr(options, name).extend(getattr(request, field))
    return options


def _write_options(request: Any, options: Any) -> None:
    for name, field in OPTIONS.items():
        setattr(request, field, getattr(options, name))
    for name, field in LISTS.items():
        del getattr(request, field)[:]
        getattr(request, field).extend(getattr(options, name))
