"""Declare fleets against the simulated clouds in this process: Pulumi's mocks as engine, no plugin processes.

What a simulated cloud refuses becomes a line of ``problems``; the program goes on as if it had been created.
"""

from __future__ import annotations

import asyncio
from functools import cache
from threading import Lock

import pulumi
from pulumi.provider.experimental import provider as api
from pulumi.runtime import mocks
from pulumi.runtime.stack import run_pulumi_func

from gpufleet import cloud
from gpufleet.fleet.spec import Fleet, FleetSpec
from gpufleet.rehearsal.providers.property_values import to_plain_values, to_property_values
from gpufleet.rehearsal.providers.provider import SimulatedProvider
from gpufleet.rehearsal.providers.schema import load_cloud_schema
from gpufleet.rehearsal.providers.store import ResourceStore

SETTINGS = {
    "aws": {"region": "us-east-1"},
    "gcp": {"project": "my-project"},
    "azure-native": {"subscriptionId": "00000000-1111-2222-3333-444444444444"},
}
load_schema_once = cache(load_cloud_schema)


def answer(coroutine):
    """Return a provider's answer: its methods are coroutines that wait for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a simulated provider waited")


class SimulatedClouds(mocks.Mocks):
    """Answer resources and lookups as the simulated clouds do."""

    def __init__(self, folder):
        self.problems = []
        self.providers = {}
        self._lock = Lock()  # the mocks answer from several threads, and a provider has one transaction
        for name, settings in SETTINGS.items():
            provider = SimulatedProvider(load_schema_once(name), ResourceStore(folder / f"{name}.sqlite"))
            request = api.ConfigureRequest(
                to_property_values(settings), {}, accept_secrets=True, accept_resources=True
            )
            answer(provider.configure(request))
            self.providers[name] = provider

    def new_resource(self, args):
        """Check and create a resource."""
        provider = self.providers.get(args.typ.partition(":")[0])
        if provider is None:
            return f"{args.name}-id", args.inputs
        with self._lock:
            return self._create(provider, args)

    def _create(self, provider, args):
        urn = f"urn:pulumi:test::gpufleet::{args.typ}::{args.name}"
        checked = answer(provider.check(api.CheckRequest(urn, {}, to_property_values(args.inputs), b"")))
        refusals = [f"{failure.property}: {failure.reason}" for failure in checked.failures or ()]
        if not refusals:
            try:
                created = answer(provider.create(api.CreateRequest(urn, checked.inputs, 0, preview=False)))
                return created.resource_id, {**args.inputs, **to_plain_values(created.properties)}
            except Exception as error:  # noqa: BLE001 - every refusal is reported
                refusals = [f"{type(error).__name__}: {error}"]
        self.problems += [f"{args.typ} {args.name}: {refusal}" for refusal in refusals]
        return f"{args.name}-id", args.inputs

    def call(self, args):
        """Answer a lookup."""
        provider = self.providers[args.token.partition(":")[0]]
        request = api.InvokeRequest(args.token, to_property_values(args.args))
        try:
            with self._lock:
                reply = answer(provider.invoke(request))
        except LookupError as error:
            self.problems.append(f"{args.token}: {error}")
            return {}
        self.problems += [f"{args.token}: {failure.reason}" for failure in reply.failures or ()]
        return to_plain_values(reply.return_value or {})


def bypass_rules(spec):
    """Return the fleet of a spec that no rule has seen."""
    return Fleet.from_spec(FleetSpec.model_validate(spec), "test", ())


def declare_in_simulated_clouds(fleet, folder, monkeypatch):
    """Return what the simulated clouds refuse when a fleet is declared."""
    clouds = SimulatedClouds(folder)
    exported = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)

    async def program():
        mocks.set_mocks(clouds, project="gpufleet", stack="test")
        await run_pulumi_func(lambda: cloud.declare_fleet(fleet))

    asyncio.run(program())
    return clouds.problems
