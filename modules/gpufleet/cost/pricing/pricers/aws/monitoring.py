"""Alarms, health checks and parameters, which have a price by their settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    is_input_true,
    read_input,
    read_input_choice,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.service import (
    GLOBAL,
    make_counted_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

PARAMETER_TIERS = ("Standard", "Advanced", "Intelligent-Tiering")
CHECK_TYPES = (
    "HTTP",
    "HTTPS",
    "HTTP_STR_MATCH",
    "HTTPS_STR_MATCH",
    "TCP",
    "CALCULATED",
    "CLOUDWATCH_METRIC",
    "RECOVERY_CONTROL",
)
HIGH_RESOLUTION_SECONDS = Decimal(60)  # alarms of a shorter period are of high resolution
FAST_SECONDS = Decimal(10)
ANOMALY_METRICS = 3  # the metric and both bounds of its expected band
CHECKS_OF_OTHERS = ("CALCULATED", "CLOUDWATCH_METRIC", "RECOVERY_CONTROL")


@dataclass(frozen=True)
class MetricAlarmInputs:
    """The inputs of an alarm."""

    metric_count: int
    period_seconds: Number
    finds_anomalies: bool
    hidden_metrics: bool


@dataclass(frozen=True)
class HealthCheckInputs:
    """The inputs of a health check, and how many options with a price it has."""

    type: Text
    is_in_aws: bool
    option_count: int


def parse_metric_alarm_inputs(inputs: Any) -> MetricAlarmInputs:
    """Parse an alarm of one metric, or of an expression over several."""
    queries = read_input_list(inputs, "metricQueries")
    metrics = [read_input(query, "metric") for query in queries]
    periods = [read_input_number(metric, "period") for metric in metrics if metric is not None]
    return MetricAlarmInputs(
        metric_count=max(1, len(periods)),
        period_seconds=periods[0] if periods else read_input_number(inputs, "period"),
        finds_anomalies=read_input(inputs, "thresholdMetricId") is not None,
        hidden_metrics=isinstance(read_input(inputs, "metricQueries"), UnreadableValue),
    )


def parse_health_check_inputs(inputs: Any) -> HealthCheckInputs:
    """Parse a health check."""
    check_type = read_input_choice(inputs, CHECK_TYPES, "type")
    name = check_type if isinstance(check_type, str) else ""
    options = (
        name.startswith("HTTPS"),
        name.endswith("STR_MATCH"),
        read_input_number(inputs, "requestInterval") == FAST_SECONDS,
        is_input_true(inputs, "measureLatency"),
    )
    target = read_input_text(inputs, "fqdn")
    is_in_aws = isinstance(target, str) and target.endswith(".amazonaws.com")
    return HealthCheckInputs(check_type, is_in_aws, sum(options))


def price_metric_alarm(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the metrics that an alarm watches."""
    alarm = parse_metric_alarm_inputs(resource.inputs)
    if alarm.hidden_metrics:
        return [UnpricedComponent("its metrics are not known until deployment", "alarm")]
    period = number_or_unpriced(alarm.period_seconds, "period", "alarm", HIGH_RESOLUTION_SECONDS)
    if isinstance(period, UnpricedComponent):
        return [period]
    resolution = "high" if period < HIGH_RESOLUTION_SECONDS else "standard"
    count = ANOMALY_METRICS if alarm.finds_anomalies else alarm.metric_count
    context = make_service_context(resource, graph)
    return [make_counted_component(context, "alarm", f"cloudwatch:alarm:{resolution}", Decimal(count))]


def price_health_check(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a health check and its options. AWS charges less for endpoints of its own."""
    check = parse_health_check_inputs(resource.inputs)
    check_type = text_or_unpriced(check.type, "type", "check")
    if isinstance(check_type, UnpricedComponent):
        return [check_type]
    context = make_service_context(resource, graph, GLOBAL)
    place = "aws" if check.is_in_aws or check_type in CHECKS_OF_OTHERS else "outside"
    return list(_check_components(context, place, check.option_count))


def _check_components(context: MachinePartContext, place: str, option_count: int) -> Iterator[CostComponent]:
    yield make_counted_component(context, "check", f"route53:health_check:{place}", Decimal(1))
    if option_count:
        item = f"route53:health_check:{place}:option"
        yield make_counted_component(context, "options", item, Decimal(option_count))


def price_ssm_parameter(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an advanced parameter; standard ones are free."""
    tier = read_input_choice(resource.inputs, PARAMETER_TIERS, "tier")
    if isinstance(tier, UnreadableValue):
        return [UnpricedComponent("tier is not known until deployment", "parameter")]
    if tier != "Advanced":
        return []
    context = make_service_context(resource, graph)
    return [make_counted_component(context, "parameter", "ssm:advanced_parameter", Decimal(1))]
