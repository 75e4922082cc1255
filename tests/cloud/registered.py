"""What a fleet registers, as readable records: every resource with its inputs and options, every lookup, the facts."""

from __future__ import annotations

import asyncio

import pulumi
import yaml
from pulumi.runtime import mocks, rpc
from pulumi.runtime.stack import run_pulumi_func

from gpufleet import cloud


class Monitor(mocks.MockMonitor):
    """The engine's place in an evaluation, keeping also what Pulumi's own mocks drop: parents and options."""

    def __init__(self, recorder):
        super().__init__(recorder)
        self.registered = []
        self.looked_up = []
        self.outputs = {}

    def RegisterResource(self, request):  # noqa: N802 - Pulumi's name
        if request.type != "pulumi:pulumi:Stack":
            self.registered.append(_resource(request))
        return super().RegisterResource(request)

    def RegisterResourceOutputs(self, request):  # noqa: N802 - Pulumi's name
        self.outputs[request.urn] = rpc.deserialize_properties(request.outputs)
        return super().RegisterResourceOutputs(request)

    def Invoke(self, request):  # noqa: N802 - Pulumi's name
        self.looked_up.append(
            {"function": request.tok, "arguments": rpc.deserialize_properties(request.args)}
        )
        return super().Invoke(request)


def _resource(request):
    options = {
        "delete_before_replace": request.deleteBeforeReplace,
        "depends_on": sorted(_short(urn) for urn in request.dependencies if _short(urn)),
        "ignore_changes": list(request.ignoreChanges),
        "protect": request.protect,
        "replace_on_changes": list(request.replaceOnChanges),
    }
    record = {
        "type": request.type,
        "name": request.name,
        "parent": _short(request.parent),
        "inputs": rpc.deserialize_properties(request.object),
    }
    kept = {name: value for name, value in options.items() if value}
    return {**record, **({"options": kept} if kept else {})}


def _short(urn):
    """Return a resource's type and name without project, stack and ancestors."""
    parts = urn.split("::")
    kind = parts[2].split("$")[-1] if len(parts) == 4 else "pulumi:pulumi:Stack"
    return "" if kind == "pulumi:pulumi:Stack" else f"{kind} {parts[3]}"


def record(fleet, recorder, monkeypatch):
    """Evaluate a fleet; return everything that it registered, in an order that does not depend on timing."""
    exported = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)
    monitor = Monitor(recorder)

    async def program():
        mocks.set_mocks(recorder, project="gpufleet", stack=fleet.stack, monitor=monitor)
        await run_pulumi_func(lambda: cloud.build(fleet))
        return await exported["nodes"].future()

    nodes = asyncio.run(program())
    outputs = [{"component": _short(urn), "outputs": monitor.outputs[urn]} for urn in sorted(monitor.outputs)]
    lookups = {yaml.safe_dump(each, sort_keys=True): each for each in monitor.looked_up}
    return {
        "resources": sorted(
            monitor.registered, key=lambda each: (each["type"], each["name"], each["parent"])
        ),
        "outputs": [each for each in outputs if each["component"]],
        "lookups": [lookups[key] for key in sorted(lookups)],
        "nodes": nodes,
    }


class Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no anchors."""

    def ignore_aliases(self, data):
        return True

    def increase_indent(self, flow=False, indentless=False):
        return super().increase_indent(flow, False)  # lists are indented, as yamllint wants them


def _text(dumper, value):
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


Dumper.add_representer(str, _text)


def as_yaml(recorded):
    return yaml.dump(recorded, Dumper=Dumper, sort_keys=False, width=110, allow_unicode=True)
