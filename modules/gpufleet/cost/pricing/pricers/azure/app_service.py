"""App Service plans, and functions that bill by use."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

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
PLAN = "serverFarmId or servicePlanId or appServicePlanId"


CONSUMPTION_SIZES = ("y1", "fc1")
SIZE = ("sku.name or skuName or sku.size", "its size")


@pricer(
    "azure-native:web:AppServicePlan",
    "azure:appservice/plan:Plan",
    "azure:appservice/servicePlan:ServicePlan",
)
def price_app_service_plan(plan: Reader) -> Parts:
    """Yield the instances of a plan, used or not; apps in it cost nothing more."""
    size = plan.of("instances").text(*SIZE).lower()
    if size in ELASTIC_SIZES:
        service, vcpus, gib = ELASTIC_SIZES[size]
        for unit, amount in (("vcpu", Decimal(vcpus)), ("gib", Decimal(gib))):
            with plan.of(unit) as part:
                yield part.part(
                    f"{service}:{unit}", part.up_to(_count(part), "maximumElasticWorkerCount") * amount
                )
    elif size not in FREE_SIZES:
        with plan.of("instances") as part:
            yield part.part(f"app_service:{_find_system(part)}:{size}", _count(part))


@pricer("azure-native:web:WebApp")
def price_web_app(app: Reader) -> Parts:
    """Yield what a function app in a consumption plan bills by use; other apps bill with their plan."""
    kind = app.of("compute").text("kind", "its kind, by which function apps bill by use,", "")
    if "functionapp" in kind.lower():
        yield from _list_function_use(app)


@pricer(
    "azure:appservice/functionApp:FunctionApp",
    "azure:appservice/linuxFunctionApp:LinuxFunctionApp",
    "azure:appservice/windowsFunctionApp:WindowsFunctionApp",
)
def price_function_app(app: Reader) -> Parts:
    """Yield what a function app in a consumption plan bills by use."""
    return _list_function_use(app)


def _list_function_use(app: Reader) -> Parts:
    plan = app.find_resource(PLAN, *PLANS)
    if plan is None or app.reading(plan).text(*SIZE).lower() in CONSUMPTION_SIZES:
        yield app.of("executions").used("functions:execution", "monthly_executions")
        yield app.of("compute").used("functions:gib_second", "monthly_execution_gib_seconds")


def _count(plan: Reader) -> Range:
    count = plan.number("sku.capacity or workerCount", "the number of its units", 1)
    return Range.from_exact_value(count or 1)


def _find_system(plan: Reader) -> str:
    """Return the system: Linux is its kind or ``reserved``; Windows containers are ``hyperV`` or ``isXenon``."""
    system = plan.text("osType or kind", "its system", "").lower()
    if "linux" in system or plan.flag("reserved"):
        return "linux"
    is_container = system == "windowscontainer" or plan.flag("hyperV") or plan.flag("isXenon")
    return "windows_container" if is_container else "windows"
