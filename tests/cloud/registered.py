"""Record what a fleet registers: every resource with its inputs and options, every lookup, the node facts."""

from __future__ import annotations

import asyncio

import pulumi
import yaml
from pulumi.runtime import mocks, rpc
from pulumi.runtime.stack import run_pulumi_func

from gpufleet import cloud


class Monitor(mocks.MockMonitor):
    """A fake engine that also records what Pulumi's own mocks drop: parents and options."""

    def __init__(self, recorder):
        super().__init__(recorder)
        self.registered = []
        self.lookups = []
        self.outputs = {}

    def RegisterResource(self, request):  # noqa: N802 - Pulumi's name
        if request.type != "pulumi:pulumi:Stack":
            self.registered.append(_resource_record(request))
        return super().RegisterResource(request)

    def RegisterResourceOutputs(self, request):  # noqa: N802 - Pulumi's name
        self.outputs[request.urn] = rpc.deserialize_properties(request.outputs)
        return super().RegisterResourceOutputs(request)

    def Invoke(self, request):  # noqa: N802 - Pulumi's name
        self.lookups.append({"function": request.tok, "arguments": rpc.deserialize_properties(request.args)})
        return super().Invoke(request)


def _resource_record(request):
    options = {
        "delete_before_replace": request.deleteBeforeReplace,
        "depends_on": sorted(_short_name(urn) for urn in request.dependencies if _short_name(urn)),
        "ignore_changes": list(request.ignoreChanges),
        "protect": request.protect,
        "replace_on_changes": list(request.replaceOnChanges),
        "replacement_trigger": request.replacement_trigger.string_value,
    }
    record = {
        "type": request.type,
        "name": request.name,
        "parent": _short_name(request.parent),
        "inputs": rpc.deserialize_properties(request.object),
    }
    set_options = {name: value for name, value in options.items() if value}
    return {**record, **({"options": set_options} if set_options else {})}


def _short_name(urn):
    """Return a resource's type and name without project, stack and ancestors."""
    parts = urn.split("::")
    kind = parts[2].split("$")[-1] if len(parts) == 4 else "pulumi:pulumi:Stack"
    return "" if kind == "pulumi:pulumi:Stack" else f"{kind} {parts[3]}"


def record(fleet, recorder, monkeypatch):
    """Evaluate a fleet; return everything that it registered, in a fixed order."""
    exported = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)
    monitor = Monitor(recorder)

    async def program():
        mocks.set_mocks(recorder, project="gpufleet", stack=fleet.stack, monitor=monitor)
        await run_pulumi_func(lambda: cloud.declare_fleet(fleet))
        outputs = {name: pulumi.Output.from_input(value) for name, value in exported.items()}
        return {name: await output.future() for name, output in outputs.items()}

    exports = asyncio.run(program())
    outputs = [
        {"component": _short_name(urn), "outputs": monitor.outputs[urn]} for urn in sorted(monitor.outputs)
    ]
    lookups = {yaml.safe_dump(lookup, sort_keys=True): lookup for lookup in monitor.lookups}
    return {
        "resources": sorted(
            monitor.registered,
            key=lambda resource: (resource["type"], resource["name"], resource["parent"]),
        ),
        "outputs": [output for output in outputs if output["component"]],
        "lookups": [lookups[key] for key in sorted(lookups)],
        "exports": exports,
    }


class Dumper(yaml.SafeDumper):
    """Write strings of several lines as blocks, and no anchors."""

    def ignore_aliases(self, data):
        return True

    def increase_indent(self, flow=False, indentless=False):
        return super().increase_indent(flow, False)  # lists are indented, as yamllint wants them


def _represent_text(dumper, value):
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


Dumper.add_representer(str, _represent_text)


def as_yaml(record):
    return yaml.dump(record, Dumper=Dumper, sort_keys=False, width=110, allow_unicode=True)
