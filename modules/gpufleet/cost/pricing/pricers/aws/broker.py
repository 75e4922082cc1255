"""Message brokers: Kafka clusters of MSK, and brokers of Amazon MQ."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

MQ_INSTANCE_COUNTS = {"SINGLE_INSTANCE": 1, "ACTIVE_STANDBY_MULTI_AZ": 2, "CLUSTER_MULTI_AZ": 3}
DEFAULT_MQ_STORAGE = {"activemq": "efs", "rabbitmq": "ebs"}  # the provider's documentation of storageType
BROKERS, COUNT = "brokerNodeGroupInfo", ("numberOfBrokerNodes", "the number of brokers")
VOLUME = f"{BROKERS}.storageInfo.ebsStorageInfo"


@pricer("aws:msk/cluster:Cluster")
def price_kafka_cluster(cluster: Reader) -> Parts:
    """Yield the brokers of a Kafka cluster and their volumes."""
    with cluster.of("broker") as broker:
        kind = broker.text(f"{BROKERS}.instanceType", "broker type")
        yield broker.instances(f"msk:{kind}", broker.number(*COUNT))
    with cluster.of("storage") as storage:
        size = storage.number(f"{VOLUME}.volumeSize", "storage", 0)
        yield storage.kept("msk:storage", storage.number(*COUNT), size)
    with cluster.of("storage:throughput") as throughput:
        if throughput.flag(f"{VOLUME}.provisionedThroughput.enabled"):
            rate = throughput.number(f"{VOLUME}.provisionedThroughput.volumeThroughput", "throughput", 0)
            yield throughput.kept("msk:storage:throughput", throughput.number(*COUNT), rate)
    with cluster.of("tiered_storage") as tiered:
        if tiered.choice("storageMode", ("LOCAL", "TIERED"), "LOCAL") == "TIERED":
            yield tiered.used("msk:tiered_storage", "storage_gb", stored=True)


@pricer("aws:mq/broker:Broker")
def price_mq_broker(broker: Reader) -> Parts:
    """Yield the instances of a broker, and what they store."""
    with broker.of("instance") as instance:
        kind = f"{instance.text('engineType', 'engine').lower()}:{instance.text('hostInstanceType', 'instance type')}"
        mode = instance.choice("deploymentMode", MQ_INSTANCE_COUNTS, "SINGLE_INSTANCE", "deployment mode")
        yield instance.instances(f"mq:{kind}", MQ_INSTANCE_COUNTS[mode])
    with broker.of("storage") as storage:
        engine = storage.text("engineType", "engine").lower()
        volume = storage.text("storageType", "storage type", DEFAULT_MQ_STORAGE.get(engine, "ebs")).lower()
        yield storage.used(f"mq:{engine}:storage:{volume}", "storage_size_gb", stored=True)
