"""Test AWS services that depend on other resources: tasks, clusters, replicas, endpoints and their scaling."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from aws_service_prices import make_book, make_service, make_usage
from gpufleet.cost import price_resources
from gpufleet.engine import UnreadableValue

FARGATE_PRICES = {
    "fargate:linux_x86:vcpu": ("0.04048", "hour"),
    "fargate:linux_x86:memory": ("0.004445", "hour"),
    "fargate:linux_arm:vcpu": ("0.03238", "hour"),
    "fargate:linux_arm:memory": ("0.00356", "hour"),
    "fargate:ephemeral_storage": ("0.000111", "hour"),
    "public_ipv4": ("0.005", "hour"),
}
TASK = {"family": "web", "cpu": "1024", "memory": "2048", "requiresCompatibilities": ["FARGATE"]}
DEFINITION = "aws:ecs/taskDefinition:TaskDefinition"
SERVICE = "aws:ecs/service:Service"


def price(*resources, prices=None, amounts=None):
    return price_resources(resources, make_book(prices or {}), usage=make_usage(amounts or {}))


def price_fargate(service, task=None, *others):
    definition = make_service(DEFINITION, TASK | (task or {}), "task")
    return price(
        definition,
        make_service(SERVICE, {"taskDefinition": "web", **service}, "web"),
        *others,
        prices=FARGATE_PRICES,
    )


def month_of(bill):
    return bill.usd_per_month.expected


def test_two_fargate_tasks_cost_their_vcpus_and_memory():
    bill = price_fargate({"launchType": "FARGATE", "desiredCount": 2})
    assert month_of(bill) == Decimal("72.0802")  # 2 x (0.04048 + 2 x 0.004445) x 730
    assert bill.unpriced_resources == ()


def test_arm_tasks_and_sizes_with_units():
    task = {"cpu": "0.5 vCPU", "memory": "1GB", "runtimePlatform": {"cpuArchitecture": "ARM64"}}
    bill = price_fargate({"launchType": "FARGATE", "desiredCount": 1}, task)
    assert month_of(bill) == Decimal("14.4175")  # (0.5 x 0.03238 + 0.00356) x 730


def test_task_size_is_the_sum_of_its_containers():
    containers = [{"name": "a", "cpu": 256, "memory": 512}, {"name": "b", "cpu": 768, "memory": 1536}]
    task = {"cpu": None, "memory": None, "containerDefinitions": json.dumps(containers)}
    bill = price_fargate({"launchType": "FARGATE", "desiredCount": 2}, task)
    assert month_of(bill) == Decimal("72.0802")


def test_disk_beyond_20_gib_and_public_addresses_bill():
    service = {"launchType": "FARGATE", "desiredCount": 1, "networkConfiguration": {"assignPublicIp": True}}
    bill = price_fargate(service, {"ephemeralStorage": {"sizeInGib": 70}})
    assert month_of(bill) == Decimal("43.7416")  # 36.0401 + 50 x 0.000111 x 730 + 0.005 x 730


def test_tasks_on_instances_are_free():
    assert price_fargate({"launchType": "EC2", "desiredCount": 2}).charges == ()
    bill = price_fargate({"desiredCount": 2}, {"requiresCompatibilities": ["EC2"]})
    assert (bill.charges, bill.unpriced_resources) == ((), ())


def test_spot_tasks_have_a_base_on_demand_and_the_rest_by_weight():
    providers = [
        {"capacityProvider": "FARGATE", "base": 2, "weight": 1},
        {"capacityProvider": "FARGATE_SPOT", "weight": 3},
    ]
    bill = price_fargate({"capacityProviderStrategies": providers, "desiredCount": 10})
    counts = {charge.component: charge.quantity.expected for charge in bill.charges}
    assert (counts["vcpu"], counts["spot_vcpu"]) == (4, 6)  # 2 + 8 / 4, and 8 x 3 / 4
    assert {each.component for each in bill.unpriced_resources} == {"spot_vcpu", "spot_memory"}
    assert bill.usd_per_month.low == Decimal("144.1604")  # four tasks on demand; of spot no price is known


def test_default_strategy_of_the_cluster_decides():
    cluster = make_service("aws:ecs/cluster:Cluster", {"name": "main"}, "main")
    strategy = {
        "clusterName": "main",
        "defaultCapacityProviderStrategies": [{"capacityProvider": "FARGATE", "weight": 1}],
    }
    providers = make_service("aws:ecs/clusterCapacityProviders:ClusterCapacityProviders", strategy, "p")
    service = {"cluster": "main", "desiredCount": 1}
    bill = price_fargate(service, {"requiresCompatibilities": ["EC2", "FARGATE"]}, cluster, providers)
    assert month_of(bill) == Decimal("36.0401")


def test_autoscaling_widens_the_range_of_tasks():
    target = make_service(
        "aws:appautoscaling/target:Target",
        {"minCapacity": 2, "maxCapacity": 6, "resourceId": "service/main/web"},
        "scaling",
    )
    bill = price_fargate({"launchType": "FARGATE", "desiredCount": 3, "name": "web"}, None, target)
    month = bill.usd_per_month
    assert (month.low, month.expected, month.high) == tuple(n * Decimal("36.0401") for n in (2, 3, 6))


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        ({"launchType": UnreadableValue.UNKNOWN}, "what its tasks run on is not known until deployment"),
        ({"launchType": "FARGATE", "desiredCount": UnreadableValue.SECRET}, "number of tasks is not known"),
    ],
)
def test_unknown_service_is_listed_with_a_reason(service, reason):
    bill = price_fargate(service)
    assert bill.charges == ()
    assert any(reason in line.reason for line in bill.unpriced_resources)


def test_replica_takes_what_it_leaves_out_from_its_source():
    source = {
        "identifier": "main",
        "engine": "mysql",
        "instanceClass": "db.t3.large",
        "allocatedStorage": 100,
        "multiAz": True,
    }
    replica = {"replicateSourceDb": "main", "instanceClass": "db.t3.micro"}
    bill = price(
        make_service("aws:rds/instance:Instance", source, "main"),
        make_service("aws:rds/instance:Instance", replica, "replica"),
        prices={
            "rds:mysql:db.t3.large": ("0.136", "hour"),
            "rds:mysql:db.t3.micro": ("0.017", "hour"),
            "rds:storage:gp2": ("0.115", "month"),
        },
    )
    of_replica = [charge for charge in bill.charges if charge.name == "replica"]
    assert {charge.component: charge.quantity.expected for charge in of_replica} == {
        "instance": 1,
        "storage": 100,
    }
    assert month_of(bill) == Decimal("245.47")  # 2 x (99.28 + 11.50) + 12.41 + 11.50, less nothing


def test_serverless_instance_is_between_its_cluster_s_capacities():
    cluster = {
        "clusterIdentifier": "main",
        "engine": "aurora-postgresql",
        "serverlessv2ScalingConfiguration": {"minCapacity": 0.5, "maxCapacity": 8},
    }
    instance = {"clusterIdentifier": "main", "instanceClass": "db.serverless", "engine": "aurora-postgresql"}
    resources = (
        make_service("aws:rds/cluster:Cluster", cluster, "main"),
        make_service("aws:rds/clusterInstance:ClusterInstance", instance, "writer"),
    )
    prices = {"aurora:serverless_v2:acu": ("0.12", "hour")}
    month = price(*resources, prices=prices).usd_per_month
    assert (month.low, month.expected, month.high) == (Decimal("43.80"), Decimal("43.80"), Decimal("700.80"))
    used = price(*resources, prices=prices, amounts={"capacity_units_per_hr": "2"}).usd_per_month
    assert used.expected == Decimal("175.20")


def test_io_optimized_cluster_has_prices_of_its_own():
    cluster = {"clusterIdentifier": "main", "engine": "aurora-mysql", "storageType": "aurora-iopt1"}
    instance = {"clusterIdentifier": "main", "instanceClass": "db.r6g.large", "engine": "aurora-mysql"}
    bill = price(
        make_service("aws:rds/cluster:Cluster", cluster, "main"),
        make_service("aws:rds/clusterInstance:ClusterInstance", instance, "writer"),
        prices={"rds:aurora-mysql:db.r6g.large": ("0.26", "hour")},
    )
    reasons = " ".join(each.reason for each in bill.unpriced_resources)
    assert bill.charges == ()
    assert "rds:aurora-mysql:db.r6g.large:io_optimized" in reasons
    assert "aurora:storage:io_optimized" in reasons


@pytest.mark.parametrize("service", ["docdb", "neptune"])
def test_cluster_bills_storage_and_requests(service):
    bill = price(
        make_service(f"aws:{service}/cluster:Cluster", {}),
        prices={f"{service}:storage": ("0.10", "month"), f"{service}:io_request": ("0.0000002", "use")},
        amounts={"storage_gb": "1000", "monthly_io_requests": "10000000"},
    )
    assert {"aws:docdb/cluster:Cluster", "aws:neptune/cluster:Cluster"} >= {bill.charges[0].type}
    assert abs(month_of(bill) - Decimal("102.00")) < Decimal("1e-6")


def test_provisioned_concurrency_has_the_memory_of_its_function():
    function = {"name": "f", "memorySize": 2048, "architectures": ["arm64"]}
    concurrency = {"functionName": "f", "provisionedConcurrentExecutions": 5}
    type_ = "aws:lambda/provisionedConcurrencyConfig:ProvisionedConcurrencyConfig"
    bill = price(
        make_service("aws:lambda/function:Function", function, "f"),
        make_service(type_, concurrency, "c"),
        prices={"lambda:arm:provisioned_concurrency": ("0.012", "hour")},
    )
    assert month_of(bill) == Decimal("87.60")  # 5 x 2 GiB x 0.012 x 730


def test_endpoint_has_the_instances_of_its_configuration():
    variants = [
        {"instanceType": "ml.g5.xlarge", "initialInstanceCount": 2},
        {"serverlessConfig": {"maxConcurrency": 5}},
    ]
    type_ = "aws:sagemaker/endpointConfiguration:EndpointConfiguration"
    configuration = make_service(type_, {"name": "c", "productionVariants": variants}, "c")
    endpoint = make_service("aws:sagemaker/endpoint:Endpoint", {"endpointConfigName": "c"}, "e")
    prices = {"sagemaker:hosting:ml.g5.xlarge": ("1.408", "hour")}
    bill = price(configuration, endpoint, prices=prices)
    assert month_of(bill) == Decimal("2055.68")
    assert [each.component for each in bill.unpriced_resources] == ["instance:1"]


def test_studio_application_of_the_system_is_free():
    type_, path = "aws:sagemaker/app:App", "resourceSpec"
    prices = {"sagemaker:studio:ml.t3.medium": ("0.05", "hour")}
    assert price(make_service(type_, {path: {"instanceType": "system"}})).unpriced_resources == ()
    assert month_of(
        price(make_service(type_, {path: {"instanceType": "ml.t3.medium"}}), prices=prices)
    ) == Decimal("36.50")


def test_batch_environment_is_between_its_vcpus():
    resources = {
        "type": "EC2",
        "minVcpus": 0,
        "desiredVcpus": 8,
        "maxVcpus": 96,
        "instanceTypes": ["g5.2xlarge"],
    }
    type_ = "aws:batch/computeEnvironment:ComputeEnvironment"
    bill = price(
        make_service(type_, {"computeResources": resources}), prices={"g5.2xlarge": ("1.212", "hour")}
    )
    month = bill.usd_per_month
    assert (month.low, month.expected, month.high) == (
        0,
        Decimal("884.76"),
        Decimal("10617.12"),
    )  # 1 and 12 of 8 vCPUs


@pytest.mark.parametrize(
    ("resources", "reason"),
    [
        ({"type": "EC2", "minVcpus": 4, "maxVcpus": 8, "instanceTypes": ["optimal"]}, "machines of optimal"),
        ({"type": "FARGATE", "maxVcpus": 8}, "vCPUs and the memory of each job"),
        ({"type": "SPOT", "minVcpus": 4, "maxVcpus": UnreadableValue.UNKNOWN}, "vCPUs are not known"),
    ],
)
def test_batch_environment_without_known_machines_is_listed(resources, reason):
    type_ = "aws:batch/computeEnvironment:ComputeEnvironment"
    (unpriced,) = price(make_service(type_, {"computeResources": resources})).unpriced_resources
    assert reason in unpriced.reason


def test_emr_bills_machines_volumes_and_its_fee():
    groups = {
        "masterInstanceGroup": {"instanceType": "m5.xlarge"},
        "coreInstanceGroup": {
            "instanceType": "m5.xlarge",
            "instanceCount": 2,
            "ebsConfigs": [{"size": 100, "type": "gp3", "volumesPerInstance": 1}],
        },
    }
    prices = {
        "m5.xlarge": ("0.192", "hour"),
        "emr:m5.xlarge": ("0.048", "hour"),
        "ebs:gp3": ("0.08", "month"),
    }
    bill = price(make_service("aws:emr/cluster:Cluster", groups), prices=prices)
    assert abs(month_of(bill) - Decimal("541.60")) < Decimal("1e-6")  # 3 x 0.24 x 730 + 16.00
    task = {"instanceType": "m5.xlarge", "instanceCount": 1}
    assert month_of(
        price(make_service("aws:emr/instanceGroup:InstanceGroup", task), prices=prices)
    ) == Decimal("175.20")


@pytest.mark.parametrize(
    ("type_", "inputs", "item", "quantity"),
    [
        (
            "aws:dax/cluster:Cluster",
            {"nodeType": "dax.r5.large", "replicationFactor": 3},
            "dax:dax.r5.large",
            3,
        ),
        (
            "aws:fsx/lustreFileSystem:LustreFileSystem",
            {"deploymentType": "PERSISTENT_2", "perUnitStorageThroughput": 125, "storageCapacity": 1200},
            "fsx_lustre:persistent_2:ssd:125",
            1200,
        ),
        ("aws:ssm/parameter:Parameter", {"tier": "Advanced"}, "ssm:advanced_parameter", 1),
    ],
)
def test_service_bills_one_item(type_, inputs, item, quantity):
    bill = price(make_service(type_, inputs), prices={item: ("1", "hour")})
    assert [(charge.item, charge.quantity.expected) for charge in bill.charges] == [(item, quantity)]


def test_ontap_bills_throughput_of_each_pair_of_servers():
    inputs = {
        "deploymentType": "SINGLE_AZ_2",
        "storageCapacity": 2048,
        "haPairs": 2,
        "throughputCapacityPerHaPair": 512,
    }
    prices = {
        "fsx_ontap:single_az_2:ssd": ("0.125", "month"),
        "fsx_ontap:single_az_2:throughput": ("0.72", "month"),
    }
    bill = price(make_service("aws:fsx/ontapFileSystem:OntapFileSystem", inputs), prices=prices)
    assert abs(month_of(bill) - Decimal("993.28")) < Decimal("1e-6")  # 256.00 + 2 x 512 x 0.72


@pytest.mark.parametrize(
    ("type_", "inputs"),
    [
        ("aws:ssm/parameter:Parameter", {"tier": "Standard"}),
        ("aws:acm/certificate:Certificate", {"domainName": "example.com"}),
        ("aws:apigateway/stage:Stage", {"stageName": "v1"}),
        ("aws:batch/computeEnvironment:ComputeEnvironment", {"type": "UNMANAGED"}),
    ],
)
def test_free_form_of_a_service_is_neither_charged_nor_listed(type_, inputs):
    bill = price(make_service(type_, inputs))
    assert (bill.charges, bill.unpriced_resources) == ((), ())
