"""Alarms, health checks and parameters, which have a price by their settings."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import GLOBAL, Parts, Reader

PARAMETER_TIERS = ("Standard", "Advanced", "Intelligent-Tiering")
CHECKS_OF_OTHERS = ("CALCULATED", "CLOUDWATCH_METRIC", "RECOVERY_CONTROL")
CHECK_TYPES = ("HTTP", "HTTPS", "HTTP_STR_MATCH", "HTTPS_STR_MATCH", "TCP", *CHECKS_OF_OTHERS)
HIGH_RESOLUTION_SECONDS = 60  # alarms of a shorter period are of high resolution
FAST_SECONDS, DEFAULT_SECONDS = 10, 30
ANOMALY_METRICS = 3  # the metric and both bounds of its expected band


@pricer("aws:cloudwatch/metricAlarm:MetricAlarm")
def price_metric_alarm(alarm: Reader) -> Parts:
    """Yield the metrics that an alarm watches."""
    with alarm.of("alarm") as part:
        metrics = [
            each for each in part.entries("metricQueries", "the list of its metrics") if each.has("metric")
        ]
        first, path = (metrics[0], "metric.period") if metrics else (part, "period")
        period = first.number(path, "period", HIGH_RESOLUTION_SECONDS)
        count = ANOMALY_METRICS if part.has("thresholdMetricId") else max(1, len(metrics))
        resolution = "high" if period < HIGH_RESOLUTION_SECONDS else "standard"
        yield part.part(f"cloudwatch:alarm:{resolution}", count)


@pricer("aws:route53/healthCheck:HealthCheck")
def price_health_check(check: Reader) -> Parts:
    """Yield a health check and its options. AWS charges less for endpoints of its own."""
    with check.within(GLOBAL).of("check") as part:
        yield part.part(f"route53:health_check:{_find_place(part)}")
    with check.within(GLOBAL).of("options") as options:
        kind = options.choice("type", CHECK_TYPES, name="type")
        interval = options.number("requestInterval", "its interval", DEFAULT_SECONDS)
        latency = options.flag("measureLatency", "whether it measures latency")
        count = kind.startswith("HTTPS") + kind.endswith("STR_MATCH") + (interval == FAST_SECONDS) + latency
        yield options.part(f"route53:health_check:{_find_place(options)}:option", count)


def _find_place(check: Reader) -> str:
    kind = check.choice("type", CHECK_TYPES, name="type")
    target = check.find_text("fqdn")
    is_in_aws = isinstance(target, str) and target.endswith(".amazonaws.com")
    return "aws" if is_in_aws or kind in CHECKS_OF_OTHERS else "outside"


@pricer("aws:ssm/parameter:Parameter")
def price_ssm_parameter(parameter: Reader) -> Parts:
    """Yield an advanced parameter; standard ones are free."""
    with parameter.of("parameter") as part:
        if part.choice("tier", PARAMETER_TIERS, "Standard", "tier") == "Advanced":
            yield part.part("ssm:advanced_parameter")
