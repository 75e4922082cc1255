"""The engine's plugin calls, served from the store of a simulated cloud."""

from __future__ import annotations

import json
import os
from typing import NoReturn

from pulumi.provider.experimental import provider as api

from gpufleet.rehearsal.providers.diff import PropertyChange, diff_resource_inputs, keep_reported_properties
from gpufleet.rehearsal.providers.faults import (
    CloudError,
    build_lost_answer_error,
    check_request,
    loses_answer,
)
from gpufleet.rehearsal.providers.lookups import LOOKUPS, CloudLookup
from gpufleet.rehearsal.providers.outputs import (
    ResourceContext,
    compute_resource_outputs,
    generate_resource_id,
)
from gpufleet.rehearsal.providers.property_values import (
    PlainValues,
    to_plain_values,
    to_property_values,
    unwrap_secrets,
)
from gpufleet.rehearsal.providers.references import (
    check_deletion,
    check_immutable_properties,
    check_references,
)
from gpufleet.rehearsal.providers.schema import CloudSchema, SimulatedResourceType
from gpufleet.rehearsal.providers.side_effects import (
    check_capacity,
    check_scale_set_capacity,
    delete_in_cloud,
    find_resize_problem,
    finish_creation,
    finish_update,
    stop_unresized_machine,
)
from gpufleet.rehearsal.providers.store import ResourceRow, ResourceStore
from gpufleet.rehearsal.providers.validation import find_input_problems

_KINDS = {
    ("add", False): api.PropertyDiffKind.ADD,
    ("add", True): api.PropertyDiffKind.ADD_REPLACE,
    ("delete", False): api.PropertyDiffKind.DELETE,
    ("delete", True): api.PropertyDiffKind.DELETE_REPLACE,
    ("update", False): api.PropertyDiffKind.UPDATE,
    ("update", True): api.PropertyDiffKind.UPDATE_REPLACE,
}
_MAX_GENERATIONS = 1000


class SimulatedProvider(api.Provider):
    """A fake of one cloud's Pulumi plugin."""

    def __init__(self, schema: CloudSchema, store: ResourceStore) -> None:
        self.schema = schema
        self.store = store

    async def get_schema(self, request: api.GetSchemaRequest) -> api.GetSchemaResponse:  # noqa: ARG002 - an override
        """Return the schema: the name, version and resource types of this fake."""
        types = {token: {"requiredInputs": list(kind.required)} for token, kind in self.schema.types.items()}
        schema = {
            "name": self.schema.cloud,
            "version": self.schema.version,
            "description": f"A simulated {self.schema.cloud} for gpufleet rehearsals. It never calls a cloud.",
            "resources": types,
        }
        return api.GetSchemaResponse(json.dumps(schema))

    async def check_config(self, request: api.CheckRequest) -> api.CheckResponse:
        """Refuse a configuration without a required setting of the real plugin, e.g. the region of AWS."""
        settings = to_plain_values(request.new_inputs)
        failures = [
            api.CheckFailure(
                key, f"missing: set {self.schema.cloud}:{key} in the stack's file, or {variable}"
            )
            for key, variable in self.schema.required_config.items()
            if not settings.get(key) and not os.environ.get(variable)
        ]
        return api.CheckResponse(request.new_inputs, failures)

    async def configure(self, request: api.ConfigureRequest) -> api.ConfigureResponse:
        """Take the account's facts (region, project, zone, subscription) from the provider's configuration."""
        settings = unwrap_secrets(to_plain_values(request.args))
        settings.setdefault("subscription", settings.get("subscriptionId"))
        self.schema.defaults.update(
            {key: str(settings[key]) for key in self.schema.defaults if settings.get(key)}
        )
        return api.ConfigureResponse(accept_secrets=True, supports_preview=True)

    async def check(self, request: api.CheckRequest) -> api.CheckResponse:
        """Refuse unknown types and invalid inputs; choose a name for unnamed resources."""
        kind = self.schema.types.get(_token(request.urn))
        if kind is None:
            return api.CheckResponse(
                request.new_inputs, [api.CheckFailure("", self._unknown_type(_token(request.urn)))]
            )
        olds, news = to_plain_values(request.old_inputs), to_plain_values(request.new_inputs)
        for row in self.store.find_resources_by_urn(request.urn):
            if olds and row.inputs == olds:
                self.store.mark_known_to_engine(row.type, row.id)
        if kind.name and kind.name not in news:
            news[kind.name] = olds.get(kind.name) or self._free_name(kind, request.name, request.urn)
        failures = [
            api.CheckFailure(place, reason) for place, reason in find_input_problems(self.schema, kind, news)
        ]
        return api.CheckResponse(to_property_values(news), failures)

    async def diff(self, request: api.DiffRequest) -> api.DiffResponse:
        """Return the changed properties, and which of them force a replacement."""
        kind = self._kind(_token(request.urn))
        news = to_plain_values(request.new_inputs)
        self.store.mark_known_to_engine(kind.token, request.resource_id)
        row = self.store.get_resource(kind.token, request.resource_id)
        olds = row.inputs if row else keep_reported_properties(to_plain_values(request.old_state), news)
        changes = diff_resource_inputs(olds, news, kind.replace, kind.server_default)
        # A name that is unique in the cloud is free only once the old resource is gone.
        keeps_name = kind.has_unique_name and olds.get(kind.name or "") == news.get(kind.name or "")
        return _diff_response(changes, delete_first=keeps_name)

    async def create(self, request: api.CreateRequest) -> api.CreateResponse:
        """Bring a resource into being; finish one whose creation was cut off before the engine heard of it."""
        context = self._context(request.urn, to_plain_values(request.properties))
        if request.preview:
            context.preview = True
            return api.CreateResponse("", to_property_values(compute_resource_outputs(context)))
        check_request(self.store, self.schema.cloud)
        with self.store.transaction():
            self._choose_id(context, request.urn)
            created = compute_resource_outputs(context)
            row = ResourceRow(context.id, context.kind.token, request.urn, context.inputs, created)
            if self.store.get_resource(row.type, row.id) is None:  # else: an unfinished creation
                check_references(self.store, row)
                check_capacity(self.schema, self.store, row)
            self.store.put_resource(row)
            finish_creation(self.schema, self.store, row)
            check_scale_set_capacity(self.schema, self.store, row)
        if loses_answer(self.store):
            raise build_lost_answer_error(self.schema.cloud)
        return api.CreateResponse(context.id, to_property_values(created))

    async def read(self, request: api.ReadRequest) -> api.ReadResponse:
        """Return the current resource; a missing one has no id."""
        kind = self._kind(_token(request.urn))
        row = self.store.get_resource(kind.token, request.resource_id)
        if row is None:
            return api.ReadResponse("")
        self.store.mark_known_to_engine(kind.token, row.id)
        return api.ReadResponse(row.id, to_property_values(row.outputs), to_property_values(row.inputs))

    async def update(self, request: api.UpdateRequest) -> api.UpdateResponse:
        """Change a resource in place."""
        context = self._context(request.urn, to_plain_values(request.news))
        context.id, context.seed = request.resource_id, request.resource_id
        context.old_outputs, context.preview = to_plain_values(request.olds), request.preview
        if request.preview:
            return api.UpdateResponse(to_property_values(compute_resource_outputs(context)))
        check_request(self.store, self.schema.cloud)
        with self.store.transaction():
            before = self.store.get_resource(context.kind.token, context.id)
            if before is None:
                raise LookupError(
                    f"{context.id} does not exist in the simulated {self.schema.cloud}; run a refresh"
                )
            updated = compute_resource_outputs(context)
            row = ResourceRow(context.id, context.kind.token, request.urn, context.inputs, updated, True)
            check_immutable_properties(context.kind, before, row)
            check_references(self.store, row)
            problem = find_resize_problem(self.schema, self.store, before, row)
            if problem:
                stop_unresized_machine(self.schema, self.store, before)
            else:
                self.store.put_resource(row)
                finish_update(self.schema, self.store, before, row)
                check_scale_set_capacity(self.schema, self.store, row)
        if problem:
            raise CloudError(problem)
        return api.UpdateResponse(to_property_values(updated))

    async def delete(self, request: api.DeleteRequest) -> None:
        """Delete a resource; ignore a missing one."""
        kind = self._kind(_token(request.urn)).token
        with self.store.transaction():
            check_deletion(self.store, kind, request.resource_id)
            delete_in_cloud(self.schema, self.store, kind, request.resource_id)

    async def invoke(self, request: api.InvokeRequest) -> api.InvokeResponse:
        """Answer a lookup."""
        lookup = LOOKUPS.get(request.tok)
        if lookup is None:
            known = ", ".join(sorted(token for token in LOOKUPS if token.startswith(f"{self.schema.cloud}:")))
            reason = (
                f"the simulated {self.schema.cloud} does not know {request.tok}; it knows: {known or 'none'}"
            )
            return api.InvokeResponse(None, [api.CheckFailure("", reason)])
        result = lookup(CloudLookup(self.schema, self.store, unwrap_secrets(to_plain_values(request.args))))
        return api.InvokeResponse(to_property_values(result))

    def _unknown_type(self, token: str) -> str:
        known = ", ".join(sorted(self.schema.types))
        return f"the simulated {self.schema.cloud} does not know {token}; it knows: {known}"

    def _kind(self, token: str) -> SimulatedResourceType:
        return self.schema.types.get(token) or _refuse(self._unknown_type(token))

    def _context(self, urn: str, inputs: PlainValues) -> ResourceContext:
        return ResourceContext(self.schema, self._kind(_token(urn)), self.store, inputs, seed=urn)

    def _choose_id(self, context: ResourceContext, urn: str) -> None:
        """Choose the id: that of an unfinished creation of this URN, else the first free one."""
        for row in self.store.find_resources_by_urn(urn):
            if not row.acknowledged and row.type == context.kind.token:
                context.id = row.id
                context.seed = row.id
                return
        for generation in range(_MAX_GENERATIONS):
            context.seed = f"{urn}#{generation}" if generation else urn
            context.id = generate_resource_id(context)
            if self.store.get_resource(context.kind.token, context.id) is None:
                context.seed = context.id
                return
            if context.kind.has_unique_name:
                break
        raise FileExistsError(f"{context.id} exists already in the simulated {self.schema.cloud}")

    def _free_name(self, kind: SimulatedResourceType, logical: str, urn: str) -> str:
        from hashlib import sha256

        suffix = sha256(urn.encode()).hexdigest()
        used_names = {
            row.inputs.get(kind.name or "") for row in self.store.find_resources_by_type(kind.token)
        }
        names = (f"{logical}-{suffix[at : at + 7]}" for at in range(50))
        return next(name for name in names if name not in used_names)


def _token(urn: str) -> str:
    """Return the type of a resource, without the types of its parents that a URN puts before it."""
    return urn.split("::")[2].rpartition("$")[2]


def _refuse(reason: str) -> NoReturn:
    raise LookupError(reason)


def _diff_response(changes: list[PropertyChange], *, delete_first: bool) -> api.DiffResponse:
    replaces = [change.path for change in changes if change.replaces]
    detail = {
        change.path: api.PropertyDiff(_KINDS[change.kind, change.replaces], input_diff=True)
        for change in changes
    }
    return api.DiffResponse(
        changes=bool(changes),
        replaces=replaces,
        diffs=[change.path for change in changes],
        delete_before_replace=bool(replaces) and delete_first,
        detailed_diff=detail,
    )
