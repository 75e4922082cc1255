"""Elastic Beanstalk environments: the machines, the load balancer and the database that their settings ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.location import find_region
from gpufleet.cost.pricing.pricers.aws.service import make_counted_component, make_service_context
from gpufleet.cost.pricing.pricers.part_names import LOAD_BALANCER
from gpufleet.engine import StateResource, UnreadableValue

LAUNCH, INSTANCES = "aws:autoscaling:launchconfiguration", "aws:ec2:instances"
GROUP, ENVIRONMENT = "aws:autoscaling:asg", "aws:elasticbeanstalk:environment"
DEFAULT_MIN, DEFAULT_MAX = Decimal(1), Decimal(4)  # AWS's documentation of the options MinSize and MaxSize
DEFAULT_BALANCER = "classic"  # the same, of LoadBalancerType

Settings = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class BeanstalkInputs:
    """The settings of an environment by namespace and name, as far as they are known."""

    settings: Settings
    hidden_settings: UnreadableValue | None


def parse_beanstalk_inputs(inputs: Any) -> BeanstalkInputs:
    """Parse an environment."""
    settings: dict[tuple[str, str], str] = {}
    for entry in read_input_list(inputs, "settings"):
        namespace, name = read_input_text(entry, "namespace"), read_input_text(entry, "name")
        value = read_input_text(entry, "value")
        if isinstance(namespace, str) and isinstance(name, str) and isinstance(value, str):
            settings[namespace, name] = value
    return BeanstalkInputs(settings, read_input_marker(inputs, "settings"))


def price_beanstalk_environment(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what an environment starts; one of a single instance has no load balancer."""
    environment = parse_beanstalk_inputs(resource.inputs)
    if environment.hidden_settings:
        reason = f"its settings are {MARKER_REASONS[environment.hidden_settings]}"
        return [UnpricedComponent(reason, "machine")]
    settings = environment.settings
    is_single = settings.get((ENVIRONMENT, "EnvironmentType")) == "SingleInstance"
    components: Components = list(_machine_components(resource, graph, settings, is_single=is_single))
    if not is_single:
        balancer = settings.get((ENVIRONMENT, "LoadBalancerType"), DEFAULT_BALANCER)
        context = make_service_context(resource, graph)
        components.append(context.make_part_component("load_balancer", f"{LOAD_BALANCER}:{balancer}"))
    if ("aws:rds:dbinstance", "DBInstanceClass") in settings:
        components.append(
            UnpricedComponent("its database is created by the environment: declare it by itself", "database")
        )
    return components


def _machine_components(
    resource: StateResource, graph: ResourceGraph, settings: Settings, *, is_single: bool
) -> Components:
    names = settings.get((INSTANCES, "InstanceTypes")) or settings.get((LAUNCH, "InstanceType"))
    types = tuple(name.strip() for name in names.split(",")) if names else ()
    if not types:
        return [UnpricedComponent("instance type is not set: the platform's default is used", "machine")]
    low = _read_setting(settings, "MinSize", DEFAULT_MIN)
    high = _read_setting(settings, "MaxSize", DEFAULT_MAX)
    if isinstance(low, UnreadableValue) or isinstance(high, UnreadableValue):
        return [UnpricedComponent("its number of machines is not known until deployment", "machine")]
    declared = Range.from_exact_value(1) if is_single else Range.spanning(low, low, max(low, high))
    count = graph.resolve_group_size(resource, declared) or declared
    terms = graph.purchase_terms_of(resource)
    region = find_region(resource, graph)
    machine = CostComponent(
        "machine", types[:1], "aws", region, count, terms=terms, hours_per_month=terms.billed_hours_per_month
    )
    components: Components = [machine]
    size_gib = read_input_number(settings.get((LAUNCH, "RootVolumeSize")))
    if isinstance(size_gib, Decimal):
        volume_type = settings.get((LAUNCH, "RootVolumeType"), "gp2")
        context = make_service_context(resource, graph)
        components.append(make_counted_component(context, "disk:root", f"ebs:{volume_type}", count, size_gib))
    else:
        components.append(UnpricedComponent("volume size is set by the platform", "disk:root"))
    return components


def _read_setting(settings: Settings, name: str, default: Decimal) -> Decimal | UnreadableValue:
    number = read_input_number({name: settings.get((GROUP, name))}, name)
    return default if number is None else number
