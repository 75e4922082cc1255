"""Message brokers: Kafka clusters of MSK, and brokers of Amazon MQ."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    is_input_true,
    read_input,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.service import (
    make_counted_component,
    make_instance_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource

MQ_INSTANCE_COUNTS = {"SINGLE_INSTANCE": 1, "ACTIVE_STANDBY_MULTI_AZ": 2, "CLUSTER_MULTI_AZ": 3}
DEFAULT_MQ_STORAGE = {"activemq": "efs", "rabbitmq": "ebs"}  # the provider's documentation of storageType


@dataclass(frozen=True)
class KafkaClusterInputs:
    """The inputs of a Kafka cluster; the volume is each broker's."""

    broker_type: Text
    broker_count: Number
    volume_gib: Number
    throughput: Number
    has_tiered_storage: bool


@dataclass(frozen=True)
class MqBrokerInputs:
    """The inputs of a broker."""

    instance_type: Text
    engine: Text
    deployment_mode: Text
    storage_type: Text


def parse_kafka_cluster_inputs(inputs: Any) -> KafkaClusterInputs:
    """Parse a Kafka cluster."""
    brokers = read_input(inputs, "brokerNodeGroupInfo")
    volume = read_input(brokers, "storageInfo", "ebsStorageInfo")
    has_throughput = is_input_true(volume, "provisionedThroughput", "enabled")
    return KafkaClusterInputs(
        broker_type=read_input_text(brokers, "instanceType"),
        broker_count=read_input_number(inputs, "numberOfBrokerNodes"),
        volume_gib=read_input_number(volume, "volumeSize"),
        throughput=read_input_number(volume, "provisionedThroughput", "volumeThroughput")
        if has_throughput
        else None,
        has_tiered_storage=read_input_text(inputs, "storageMode") == "TIERED",
    )


def parse_mq_broker_inputs(inputs: Any) -> MqBrokerInputs:
    """Parse a broker."""
    return MqBrokerInputs(
        instance_type=read_input_text(inputs, "hostInstanceType"),
        engine=read_input_text(inputs, "engineType"),
        deployment_mode=read_input_text(inputs, "deploymentMode") or "SINGLE_INSTANCE",
        storage_type=read_input_text(inputs, "storageType"),
    )


def price_kafka_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the brokers of a Kafka cluster and their volumes."""
    cluster = parse_kafka_cluster_inputs(resource.inputs)
    count = number_or_unpriced(cluster.broker_count, "the number of brokers", "broker")
    broker_type = text_or_unpriced(cluster.broker_type, "broker type", "broker")
    if isinstance(count, UnpricedComponent):
        return [count]
    if isinstance(broker_type, UnpricedComponent):
        return [broker_type]
    context = make_service_context(resource, graph)
    brokers = Range.from_exact_value(count)
    item = f"msk:{broker_type}"
    components: Components = [make_instance_component(resource, graph, item, brokers, "broker")]
    for name, number in (("storage", cluster.volume_gib), ("storage:throughput", cluster.throughput)):
        amount = number_or_unpriced(number, name, name, Decimal(0))
        if isinstance(amount, UnpricedComponent):
            components.append(amount)
        elif amount:
            components.append(make_counted_component(context, name, f"msk:{name}", count, amount))
    if cluster.has_tiered_storage:
        usage = graph.usage_of_resource(resource)
        components.append(
            context.make_usage_component(
                "tiered_storage", "msk:tiered_storage", "storage_gb", usage, is_stored=True
            )
        )
    return components


def price_mq_broker(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the instances of a broker, and what they store."""
    broker = parse_mq_broker_inputs(resource.inputs)
    instance_type = text_or_unpriced(broker.instance_type, "instance type", "instance")
    engine = text_or_unpriced(broker.engine, "engine", "instance")
    mode = text_or_unpriced(broker.deployment_mode, "deployment mode", "instance")
    for each in (instance_type, engine, mode):
        if isinstance(each, UnpricedComponent):
            return [each]
    name = str(engine).lower()
    count = Range.from_exact_value(MQ_INSTANCE_COUNTS.get(str(mode), 1))
    context = make_service_context(resource, graph)
    storage = (text_if_known(broker.storage_type) or DEFAULT_MQ_STORAGE.get(name, "ebs")).lower()
    return [
        make_instance_component(resource, graph, f"mq:{name}:{instance_type}", count),
        context.make_usage_component(
            "storage",
            f"mq:{name}:storage:{storage}",
            "storage_size_gb",
            graph.usage_of_resource(resource),
            is_stored=True,
        ),
    ]
