"""App Service plans, and functions that bill by use."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    is_input_true,
    read_input,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.location import standalone_part_context
from gpufleet.cost.pricing.pricers.azure.service import resolve_units, units_component, with_inputs
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

FREE_SIZES = ("f1", "y1", "fc1")  # free, or billed by the functions in the plan
# vCPUs and GiB of memory of sizes that bill both apart (learn.microsoft.com, "Azure Functions Premium plan").
ELASTIC_SIZES = {
    "ep1": ("functions_premium", 1, "3.5"),
    "ep2": ("functions_premium", 2, "7"),
    "ep3": ("functions_premium", 4, "14"),
    "ws1": ("logic_apps_standard", 1, "3.5"),
    "ws2": ("logic_apps_standard", 2, "7"),
    "ws3": ("logic_apps_standard", 4, "14"),
}
PLANS = (
    "azure-native:web:AppServicePlan",
    "azure:appservice/servicePlan:ServicePlan",
    "azure:appservice/plan:Plan",
)
PLAN_INPUTS = ("serverFarmId", "servicePlanId", "appServicePlanId")


@dataclass(frozen=True)
class AppServicePlanInputs:
    """The size of a plan, its system, and its instances."""

    size: Text
    system: str
    capacity: Number
    maximum: Number


def parse_app_service_plan_inputs(inputs: Any) -> AppServicePlanInputs:
    """Parse a plan. Linux is its kind or ``reserved``; Windows containers are ``hyperV`` or ``isXenon``."""
    kind = (text_if_known(read_input_text(inputs, "kind")) or "").lower()
    is_linux = is_input_true(inputs, "reserved") or "linux" in kind
    is_container = is_input_true(inputs, "hyperV") or is_input_true(inputs, "isXenon")
    size = read_input_text(inputs, "sku", "size")
    name = read_input_text(inputs, "sku", "name")
    return AppServicePlanInputs(
        size=size if name is None else name,
        system="linux" if is_linux else "windows_container" if is_container else "windows",
        capacity=read_input_number(inputs, "sku", "capacity"),
        maximum=read_input_number(inputs, "maximumElasticWorkerCount"),
    )


def price_app_service_plan(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the instances of a plan, used or not; apps in it cost nothing more."""
    plan = parse_app_service_plan_inputs(resource.inputs)
    size = text_or_unpriced(plan.size, "its size", "instances")
    if isinstance(size, UnpricedComponent):
        return [size]
    name = size.lower()
    if name in FREE_SIZES:
        return []
    context = standalone_part_context(resource, graph)
    if name in ELASTIC_SIZES:
        return _elastic_components(name, resolve_units(plan.capacity, plan.maximum, Decimal(1)), context)
    count = resolve_units(plan.capacity, None, Decimal(1))
    return [units_component("instances", f"app_service:{plan.system}:{name}", count, context)]


def price_web_app(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what a function app in a consumption plan bills by use; other apps bill with their plan."""
    kind = read_input_text(resource.inputs, "kind")
    if isinstance(kind, UnreadableValue):
        return [
            UnpricedComponent(f"its kind is {MARKER_REASONS[kind]}: function apps bill by use", "compute")
        ]
    if "functionapp" not in (kind or "").lower():
        return []
    plan = next(
        (
            target
            for name in PLAN_INPUTS
            if name in resource.inputs
            and (target := graph.find_referenced_resource(resource, (name,), *PLANS))
        ),
        None,
    )
    if plan is not None and not _is_consumption(plan):
        return []
    context, usage = standalone_part_context(resource, graph), graph.usage_of_resource(resource)
    return [
        context.make_usage_component("executions", "functions:execution", "monthly_executions", usage),
        context.make_usage_component(
            "compute", "functions:gib_second", "monthly_execution_gib_seconds", usage
        ),
    ]


def _is_consumption(plan: StateResource) -> bool:
    size = _native_plan(plan.inputs) if plan.type.startswith("azure:") else plan.inputs
    return str(parse_app_service_plan_inputs(size).size).lower() in ("y1", "fc1")


def _elastic_components(name: str, count: Range | UnreadableValue, context: MachinePartContext) -> Components:
    service, vcpus, gib = ELASTIC_SIZES[name]
    sizes = (("vcpu", Decimal(vcpus)), ("gib", Decimal(gib)))
    if isinstance(count, UnreadableValue):
        return [units_component("instances", "", count, context)]
    return [units_component(part, f"{service}:{part}", count * size, context) for part, size in sizes]


def _native_plan(inputs: Any) -> Any:
    """Return the inputs of azure-native for both classic plans."""
    size = read_input(inputs, "skuName")
    system = read_input(inputs, "osType") or read_input(inputs, "kind") or ""
    workers = read_input(inputs, "workerCount")
    sku = {
        "name": read_input(inputs, "sku", "size") if size is None else size,
        "capacity": read_input(inputs, "sku", "capacity") if workers is None else workers,
    }
    return {**inputs, "sku": sku, "kind": system, "isXenon": system == "WindowsContainer"}


def _function_app(inputs: Any) -> Any:
    return {**inputs, "kind": "functionapp"}


_CLASSIC_PLAN = with_inputs(price_app_service_plan, _native_plan)
_CLASSIC_FUNCTION = with_inputs(price_web_app, _function_app)

PRICERS: dict[str, Pricer] = {
    "azure-native:web:AppServicePlan": price_app_service_plan,
    "azure-native:web:WebApp": price_web_app,
    "azure:appservice/functionApp:FunctionApp": _CLASSIC_FUNCTION,
    "azure:appservice/linuxFunctionApp:LinuxFunctionApp": _CLASSIC_FUNCTION,
    "azure:appservice/plan:Plan": _CLASSIC_PLAN,
    "azure:appservice/servicePlan:ServicePlan": _CLASSIC_PLAN,
    "azure:appservice/windowsFunctionApp:WindowsFunctionApp": _CLASSIC_FUNCTION,
}
