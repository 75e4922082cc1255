"""The engine's calls, answered from a simulated cloud's memory."""

from __future__ import annotations

import json
import os
from typing import NoReturn

from pulumi.provider.experimental import provider as api

from gpufleet.rehearsal.providers.catalogue import ResourceType, Schema
from gpufleet.rehearsal.providers.changes import Change, alike, changes
from gpufleet.rehearsal.providers.checks import faults
from gpufleet.rehearsal.providers.lookups import LOOKUPS, Lookup
from gpufleet.rehearsal.providers.memory import Memory, Row
from gpufleet.rehearsal.providers.outputs import Context, identity, outputs
from gpufleet.rehearsal.providers.values import Plain, from_plain, reveal, to_plain

_KINDS = {
    ("add", False): api.PropertyDiffKind.ADD,
    ("add", True): api.PropertyDiffKind.ADD_REPLACE,
    ("delete", False): api.PropertyDiffKind.DELETE,
    ("delete", True): api.PropertyDiffKind.DELETE_REPLACE,
    ("update", False): api.PropertyDiffKind.UPDATE,
    ("update", True): api.PropertyDiffKind.UPDATE_REPLACE,
}
_MOST_GENERATIONS = 1000


class SimulatedProvider(api.Provider):
    """A double of one cloud's Pulumi plugin."""

    def __init__(self, schema: Schema, memory: Memory) -> None:
        self.schema = schema
        self.memory = memory

    async def get_schema(self, request: api.GetSchemaRequest) -> api.GetSchemaResponse:  # noqa: ARG002 - an override
        """Describe ourselves: a double, and what it knows."""
        known = {token: {"requiredInputs": list(kind.required)} for token, kind in self.schema.types.items()}
        described = {
            "name": self.schema.cloud,
            "version": self.schema.version,
            "description": f"A simulated {self.schema.cloud} for gpufleet rehearsals. It never calls a cloud.",
            "resources": known,
        }
        return api.GetSchemaResponse(json.dumps(described))

    async def check_config(self, request: api.CheckRequest) -> api.CheckResponse:
        """Refuse a configuration that lacks what the real plugin asks for: AWS wants a region."""
        given = to_plain(request.new_inputs)
        failures = [
            api.CheckFailure(
                key, f"missing: set {self.schema.cloud}:{key} in the stack's file, or {variable}"
            )
            for key, variable in self.schema.required_config.items()
            if not given.get(key) and not os.environ.get(variable)
        ]
        return api.CheckResponse(request.new_inputs, failures)

    async def configure(self, request: api.ConfigureRequest) -> api.ConfigureResponse:
        """Take the account's facts (region, project, zone, subscription) from the provider's configuration."""
        given = reveal(to_plain(request.args))
        given.setdefault("subscription", given.get("subscriptionId"))
        self.schema.defaults.update({key: str(given[key]) for key in self.schema.defaults if given.get(key)})
        return api.ConfigureResponse(accept_secrets=True, supports_preview=True)

    async def check(self, request: api.CheckRequest) -> api.CheckResponse:
        """Refuse unknown types, missing inputs and combinations that the cloud refuses; name the unnamed."""
        kind = self.schema.types.get(_token(request.urn))
        if kind is None:
            return api.CheckResponse(
                request.new_inputs, [api.CheckFailure("", self._unknown_type(_token(request.urn)))]
            )
        olds, news = to_plain(request.old_inputs), to_plain(request.new_inputs)
        for row in self.memory.of_urn(request.urn):
            if olds and row.inputs == olds:
                self.memory.acknowledge(row.type, row.id)
        if kind.name and kind.name not in news:
            news[kind.name] = olds.get(kind.name) or self._free_name(kind, request.name, request.urn)
        failures = [api.CheckFailure(place, reason) for place, reason in faults(kind, news)]
        return api.CheckResponse(from_plain(news), failures)

    async def diff(self, request: api.DiffRequest) -> api.DiffResponse:
        """Tell the changed places, and which of them force a replacement."""
        kind = self._kind(_token(request.urn))
        news = to_plain(request.new_inputs)
        self.memory.acknowledge(kind.token, request.resource_id)
        row = self.memory.get(kind.token, request.resource_id)
        olds = row.inputs if row else alike(to_plain(request.old_state), news)
        found = changes(olds, news, kind.replace)
        # A name that is unique in the cloud is free only once the old resource is gone.
        keeps_name = kind.unique_name and olds.get(kind.name or "") == news.get(kind.name or "")
        return _difference(found, delete_first=keeps_name)

    async def create(self, request: api.CreateRequest) -> api.CreateResponse:
        """Bring a resource into being; finish one whose creation was cut off before the engine heard of it."""
        context = self._context(request.urn, to_plain(request.properties))
        if request.preview:
            context.preview = True
            return api.CreateResponse("", from_plain(outputs(context)))
        with self.memory.transaction():
            self._settle(context, request.urn)
            made = outputs(context)
            self.memory.put(Row(context.id, context.kind.token, request.urn, context.inputs, made))
        return api.CreateResponse(context.id, from_plain(made))

    async def read(self, request: api.ReadRequest) -> api.ReadResponse:
        """Return what exists now; a resource that is gone has no id."""
        kind = self._kind(_token(request.urn))
        row = self.memory.get(kind.token, request.resource_id)
        if row is None:
            return api.ReadResponse("")
        self.memory.acknowledge(kind.token, row.id)
        return api.ReadResponse(row.id, from_plain(row.outputs), from_plain(row.inputs))

    async def update(self, request: api.UpdateRequest) -> api.UpdateResponse:
        """Change a resource in place."""
        context = self._context(request.urn, to_plain(request.news))
        context.id, context.seed = request.resource_id, request.resource_id
        context.old, context.preview = to_plain(request.olds), request.preview
        if request.preview:
            return api.UpdateResponse(from_plain(outputs(context)))
        with self.memory.transaction():
            if self.memory.get(context.kind.token, context.id) is None:
                raise LookupError(
                    f"{context.id} does not exist in the simulated {self.schema.cloud}; run a refresh"
                )
            made = outputs(context)
            self.memory.put(Row(context.id, context.kind.token, request.urn, context.inputs, made, True))
        return api.UpdateResponse(from_plain(made))

    async def delete(self, request: api.DeleteRequest) -> None:
        """Delete; what is gone already stays gone."""
        with self.memory.transaction():
            self.memory.delete(self._kind(_token(request.urn)).token, request.resource_id)

    async def invoke(self, request: api.InvokeRequest) -> api.InvokeResponse:
        """Answer a lookup."""
        answer = LOOKUPS.get(request.tok)
        if answer is None:
            known = ", ".join(sorted(token for token in LOOKUPS if token.startswith(f"{self.schema.cloud}:")))
            reason = (
                f"the simulated {self.schema.cloud} does not know {request.tok}; it knows: {known or 'none'}"
            )
            return api.InvokeResponse(None, [api.CheckFailure("", reason)])
        result = answer(Lookup(self.schema, self.memory, reveal(to_plain(request.args))))
        return api.InvokeResponse(from_plain(result))

    def _unknown_type(self, token: str) -> str:
        known = ", ".join(sorted(self.schema.types))
        return f"the simulated {self.schema.cloud} does not know {token}; it knows: {known}"

    def _kind(self, token: str) -> ResourceType:
        return self.schema.types.get(token) or _refuse(self._unknown_type(token))

    def _context(self, urn: str, inputs: Plain) -> Context:
        return Context(self.schema, self._kind(_token(urn)), self.memory, inputs, seed=urn)

    def _settle(self, context: Context, urn: str) -> None:
        """Choose the id: that of an unfinished creation of this URN, else the first that is free."""
        for row in self.memory.of_urn(urn):
            if not row.acknowledged and row.type == context.kind.token:
                context.id = row.id
                context.seed = row.id
                return
        for generation in range(_MOST_GENERATIONS):
            context.seed = f"{urn}#{generation}" if generation else urn
            context.id = identity(context)
            if self.memory.get(context.kind.token, context.id) is None:
                context.seed = context.id
                return
            if context.kind.unique_name:
                break
        raise FileExistsError(f"{context.id} exists already in the simulated {self.schema.cloud}")

    def _free_name(self, kind: ResourceType, logical: str, urn: str) -> str:
        from hashlib import sha256

        suffix = sha256(urn.encode()).hexdigest()
        taken = {row.inputs.get(kind.name or "") for row in self.memory.of_type(kind.token)}
        names = (f"{logical}-{suffix[at : at + 7]}" for at in range(50))
        return next(name for name in names if name not in taken)


def _token(urn: str) -> str:
    """Return the type of a resource, without the types of its parents that a URN puts before it."""
    return urn.split("::")[2].rpartition("$")[2]


def _refuse(reason: str) -> NoReturn:
    raise LookupError(reason)


def _difference(found: list[Change], *, delete_first: bool) -> api.DiffResponse:
    replaces = [change.path for change in found if change.replaces]
    detail = {
        change.path: api.PropertyDiff(_KINDS[change.kind, change.replaces], input_diff=True)
        for change in found
    }
    return api.DiffResponse(
        changes=bool(found),
        replaces=replaces,
        diffs=[change.path for change in found],
        delete_before_replace=bool(replaces) and delete_first,
        detailed_diff=detail,
    )
