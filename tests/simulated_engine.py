"""Evaluate a fleet against the simulated clouds without Pulumi's engine: each resource is checked and created."""

from __future__ import annotations

import asyncio
import threading

import pulumi
from pulumi.provider.experimental import provider as api
from pulumi.runtime import mocks
from pulumi.runtime.stack import run_pulumi_func

from gpufleet import cloud
from gpufleet.rehearsal.providers.property_values import to_plain_values, to_property_values
from gpufleet.rehearsal.providers.provider import SimulatedProvider
from gpufleet.rehearsal.providers.schema import load_cloud_schema
from gpufleet.rehearsal.providers.store import ResourceStore

SCHEMAS = {name: load_cloud_schema(name) for name in ("aws", "gcp", "azure-native")}


def _run(coroutine):
    """Return the result of a provider's call, which never waits for anything."""
    try:
        coroutine.send(None)
    except StopIteration as result:
        return result.value
    raise AssertionError("a provider's call waits")


class SimulatedEngine(mocks.Mocks):
    """An engine that asks the simulated clouds; ``refusals`` are what they refused: (type, name, reason)."""

    def __init__(self, folder):
        self.providers = {
            name: SimulatedProvider(schema, ResourceStore(folder / f"{name}.sqlite"))
            for name, schema in SCHEMAS.items()
        }
        self.refusals = []
        self._lock = threading.Lock()  # Pulumi registers resources from several threads

    def new_resource(self, args):
        provider = self.providers.get(args.typ.split(":")[0])
        if provider is None:
            return args.name, dict(args.inputs)
        urn = f"urn:pulumi:test::test::{args.typ}::{args.name}"
        with self._lock:
            try:
                return self._create(provider, urn, args)
            except Exception as error:  # noqa: BLE001 - whatever the cloud refuses
                # The program goes on, so that Pulumi's runtime ends in order.
                self.refusals.append((args.typ, args.name, str(error)))
                return args.name, dict(args.inputs)

    def _create(self, provider, urn, args):
        answer = _run(
            provider.check(api.CheckRequest(urn, {}, to_property_values(_drop_missing(args.inputs)), b""))
        )
        if answer.failures:
            first = answer.failures[0]
            raise ValueError(f"{first.property}: {first.reason}")
        created = _run(provider.create(api.CreateRequest(urn, answer.inputs, 0, False)))
        return created.resource_id, to_plain_values(created.properties)

    def call(self, args):
        provider = self.providers[args.token.split(":")[0]]
        with self._lock:
            try:
                return self._answer(provider, args)
            except LookupError as error:
                self.refusals.append((args.token, "", str(error)))
                return {"id": "none", "rootDeviceName": "/dev/sda1", "selfLink": "none", "locations": []}

    def _answer(self, provider, args):
        answer = _run(
            provider.invoke(api.InvokeRequest(args.token, to_property_values(_drop_missing(args.args))))
        )
        return to_plain_values(answer.return_value or {})


def _drop_missing(value):
    if isinstance(value, dict):
        return {key: _drop_missing(item) for key, item in value.items() if item is not None}
    return [_drop_missing(item) for item in value] if isinstance(value, list) else value


def evaluate_fleet(fleet, engine, monkeypatch):
    """Declare a fleet's resources with this engine; return the error that ended it, or None."""
    exported = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)

    async def program():
        mocks.set_mocks(engine, project="gpufleet", stack=fleet.stack)
        await run_pulumi_func(lambda: cloud.declare_fleet(fleet))

    try:
        asyncio.run(program())
    except Exception as error:  # noqa: BLE001 - any error of a program
        return error
    return None
