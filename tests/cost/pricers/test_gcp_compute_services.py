"""Google Cloud's services that run machines, containers and load balancers, each total calculated by hand.

Prices: Google's lists of 2026 as ``tools/price_lists/service_parts_gcp.csv`` names them, written out again here.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.catalog import Price
from gpufleet.cost.inputs.usage.model import NO_USAGE, ResourceUsage, UsageFile, UsageFileEntry
from gpufleet.engine import UNKNOWN, StateResource, UnreadableValue

REGION = "us-central1"
HIDDEN = UnreadableValue.UNKNOWN
MONTH_S = 730 * 3600
MACHINES = {"e2-standard-4": "0.134", "e2-micro": "0.008", "n1-standard-4": "0.19", "n1-standard-1": "0.0475"}
PARTS = {
    "pd-balanced": "0.0002",
    "pd-standard": "0.0001",
    "accelerator:nvidia-tesla-t4": "0.35",
    "dataproc:vcpu": "0.01",
}


def find_price(cloud, region, item, purchase):
    usd = {**MACHINES, **PARTS}.get(item)
    if usd is None or purchase != "on_demand":
        return None
    return Price(float(usd), "unit", "2026-07-06", "written by hand", "high", region, purchase)


HAND_BOOK = cost.PriceBook(find_price, find_price)


def make_resource(type_, inputs, name="r", **fields):
    return StateResource(f"urn:pulumi:prod::p::{type_}::{name}", type_, name, inputs, {}, **fields)


def price(type_, inputs, book=None, **amounts):
    usage = ResourceUsage(amounts={key: Decimal(str(value)) for key, value in amounts.items()})
    file = UsageFile(resources=(UsageFileEntry("r", usage, 1),)) if amounts else NO_USAGE
    return cost.price_resources([make_resource(type_, inputs)], book, usage=file)


def month(bill):
    return round(bill.usd_per_month.expected, 4)


def reasons(bill):
    return " | ".join(each.reason for each in bill.unpriced_resources)


RUN = "gcp:cloudrunv2/service:Service"


def make_service(minimum=None, limits=None, **resources):
    container = {"image": "i", "resources": {**({"limits": limits} if limits else {}), **resources}}
    if not container["resources"]:
        del container["resources"]
    scaling = {} if minimum is None else {"scaling": {"minInstanceCount": minimum}}
    return {"location": REGION, "template": {"containers": [container], **scaling}}


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (make_service(), 0),
        # idle: 0.0000025 per vCPU second and per GiB second
        (make_service(1), MONTH_S * (1 + 0.5) * 0.0000025),
        (make_service(2, {"cpu": "2", "memory": "4Gi"}, cpuIdle=True), 2 * MONTH_S * (2 + 4) * 0.0000025),
        # always on: 0.000018 per vCPU second, 0.000002 per GiB second
        (make_service(1, {"cpu": "1000m", "memory": "1Gi"}), MONTH_S * (0.000018 + 0.000002)),
        (make_service(3, {"cpu": "4", "memory": "2048Mi"}), 3 * MONTH_S * (4 * 0.000018 + 2 * 0.000002)),
    ],
)
def test_run_service_costs_the_instances_that_it_keeps(inputs, expected):
    assert month(price(RUN, inputs)) == round(Decimal(str(expected)), 4)


def test_run_service_costs_its_requests():
    bill = price(
        RUN,
        make_service(None, {"cpu": "1", "memory": "1Gi"}, cpuIdle=True),
        monthly_requests=10_000_000,
        average_request_duration_ms=200,
        concurrent_requests_per_instance=10,
    )
    seconds = 10_000_000 * 0.2 / 10
    expected = 10_000_000 * 0.0000004 + seconds * (0.000024 + 0.0000025)
    assert month(bill) == round(Decimal(str(expected)), 4)
    assert reasons(bill) == ""


def test_run_service_without_usage_lists_unit_prices_and_keys():
    text = reasons(price(RUN, make_service()))
    assert "0.0000004 USD per request; give monthly_requests" in text
    text = reasons(price(RUN, make_service(), monthly_requests=5))
    assert "give average_request_duration_ms" in text


def test_manual_scaling_of_a_service_counts_its_instances():
    inputs = {**make_service(None, {"cpu": "1", "memory": "1Gi"}), "scaling": {"manualInstanceCount": 2}}
    assert month(price(RUN, inputs)) == round(Decimal(str(2 * MONTH_S * 0.00002)), 4)


def test_run_service_with_a_gpu_lists_it():
    inputs = make_service(1, {"cpu": "4", "memory": "16Gi"})
    inputs["template"]["nodeSelector"] = {"accelerator": "nvidia-l4"}
    assert "cloud_run:nvidia-l4:second" in reasons(price(RUN, inputs))


@pytest.mark.parametrize(
    ("inputs", "listed"),
    [
        (make_service(HIDDEN), {"vcpus:minimum", "memory:minimum"}),
        (make_service(1, {"cpu": HIDDEN}), {"vcpus:minimum"}),
        (make_service(1, {"cpu": "1e999999999"}), {"vcpus:minimum"}),
        (make_service(1, {"memory": "9" * 400}), {"memory:minimum"}),
    ],
)
def test_run_service_of_unreadable_size_is_listed(inputs, listed):
    bill = price(RUN, inputs)
    assert listed <= {each.component for each in bill.unpriced_resources}
    assert {each.component for each in bill.charges} == {"vcpus:minimum", "memory:minimum"} - listed


def test_first_version_of_the_api_has_its_settings_in_annotations():
    template = {
        "metadata": {
            "annotations": {
                "autoscaling.knative.dev/minScale": "2",
                "run.googleapis.com/cpu-throttling": "false",
            }
        },
        "spec": {"containers": [{"resources": {"limits": {"cpu": "1000m", "memory": "512M"}}}]},
    }
    bill = price("gcp:cloudrun/service:Service", {"location": REGION, "template": template})
    gib = Decimal(512_000_000) / 1024**3
    assert month(bill) == round(2 * MONTH_S * (Decimal("0.000018") + gib * Decimal("0.000002")), 4)


def test_worker_pool_always_runs():
    inputs = {
        "location": REGION,
        "scaling": {"manualInstanceCount": 2},
        "template": {"containers": [{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]},
    }
    expected = 2 * MONTH_S * (Decimal("0.000011244") + Decimal("0.000001235"))
    assert month(price("gcp:cloudrunv2/workerPool:WorkerPool", inputs)) == round(expected, 4)


def test_run_job_costs_its_executions():
    inputs = {"location": "europe-west3", "template": {"taskCount": 4, "template": {"containers": [{}]}}}
    bill = price("gcp:cloudrunv2/job:Job", inputs, monthly_job_executions=30, average_task_execution_mins=10)
    seconds = 30 * 4 * 600  # tier 2: 0.0000216 and 0.0000024
    assert month(bill) == round(Decimal(str(seconds * (0.0000216 + 0.5 * 0.0000024))), 4)


def test_function_of_the_second_generation_keeps_instances_warm():
    config = {"minInstanceCount": 1, "availableMemory": "1Gi"}
    bill = price("gcp:cloudfunctionsv2/function:Function", {"location": REGION, "serviceConfig": config})
    expected = MONTH_S * (Decimal("0.583") + 1) * Decimal("0.0000025")
    assert month(bill) == round(expected, 4)


def test_function_of_the_first_generation_costs_its_calls():
    bill = price(
        "gcp:cloudfunctions/function:Function",
        {"region": REGION, "availableMemoryMb": 512},
        monthly_function_invocations=1_000_000,
        request_duration_ms=100,
    )
    # 100,000 s at 0.8 GHz and 0.5 GiB
    expected = Decimal("0.4") + 100_000 * (Decimal("0.8") * Decimal("0.00001") + Decimal("0.00000125"))
    assert month(bill) == round(expected, 4)
    assert reasons(bill) == ""


RULE = "gcp:compute/forwardingRule:ForwardingRule"
GLOBAL_RULE = "gcp:compute/globalForwardingRule:GlobalForwardingRule"
HOURLY = Decimal(730)


@pytest.mark.parametrize(("count", "usd"), [(1, "0.025"), (5, "0.025"), (6, "0.035"), (8, "0.055")])
def test_first_five_global_rules_have_one_price(count, usd):
    rules = [make_resource(GLOBAL_RULE, {"target": "t"}, f"r{index}") for index in range(count)]
    assert month(cost.price_resources(rules)) == Decimal(usd) * HOURLY


def test_rules_of_other_projects_and_places_are_counted_apart():
    rules = [
        make_resource(GLOBAL_RULE, {}, "a"),
        make_resource(GLOBAL_RULE, {"project": "other"}, "b"),
        make_resource(RULE, {"region": "nowhere-west9"}, "c"),
    ]
    bill = cost.price_resources(rules)
    assert month(bill) == Decimal("0.05") * HOURLY
    assert "load_balancer:forwarding_rule in nowhere-west9" in reasons(bill)


def test_service_connect_endpoint_is_not_a_rule_of_a_load_balancer():
    target = "projects/p/regions/us-central1/serviceAttachments/s"
    rules = [
        make_resource(RULE, {"region": REGION, "target": target}, "endpoint"),
        make_resource(GLOBAL_RULE, {}, "rule"),
    ]
    bill = cost.price_resources(rules)
    assert month(bill) == Decimal("0.025") * HOURLY
    assert "private_service_connect:endpoint" in reasons(bill)


def test_data_of_a_load_balancer_bills_by_use():
    bill = price(RULE, {"region": REGION}, monthly_ingress_data_gb=1000)
    data = next(charge for charge in bill.charges if charge.component == "data")
    assert round(data.usd_per_month.expected, 4) == 8


NAT = "gcp:compute/routerNat:RouterNat"


@pytest.mark.parametrize(("machines", "billed"), [(1, 1), (20, 20), (32, 32), (100, 32)])
def test_nat_bills_up_to_32_machines(machines, billed):
    bill = price(NAT, {"region": REGION}, assigned_vms=machines, monthly_data_processed_gb=100)
    assert month(bill) == Decimal("0.0014") * billed * HOURLY + Decimal("4.5")


def test_nat_without_a_number_of_machines_is_listed():
    bill = price(NAT, {"region": REGION})
    assert not bill.charges
    assert "give assigned_vms" in reasons(bill)


def test_armor_policy_costs_its_rules_without_the_default_one():
    rules = [{"priority": 1}, {"priority": 2}, {"priority": 2147483647}]
    bill = price("gcp:compute/securityPolicy:SecurityPolicy", {"rules": rules}, monthly_requests=2_000_000)
    assert month(bill) == Decimal("8.5")  # 5 + 2 x 1 + 2 x 0.75


def test_certificate_authority_costs_the_tier_of_its_pool():
    pool = make_resource(
        "gcp:certificateauthority/caPool:CaPool", {"name": "pool", "tier": "ENTERPRISE"}, "pool"
    )
    kind = "gcp:certificateauthority/authority:Authority"
    authority = make_resource(kind, {"pool": "pool"})
    assert month(cost.price_resources([pool, authority])) == 200
    assert "tier of its pool is not known" in reasons(cost.price_resources([authority]))


WORKBENCH = "gcp:workbench/instance:Instance"


def test_workbench_costs_its_machine_card_and_disk():
    setup = {
        "machineType": "n1-standard-4",
        "acceleratorConfigs": [{"type": "NVIDIA_TESLA_T4", "coreCount": "2"}],
        "bootDisk": {"diskSizeGb": "200", "diskType": "PD_STANDARD"},
    }
    bill = price(WORKBENCH, {"location": "us-central1-a", "gceSetup": setup}, HAND_BOOK)
    expected = Decimal("0.19") + 2 * Decimal("0.35") + 200 * Decimal("0.0001")
    assert month(bill) == expected * HOURLY


def test_workbench_without_settings_has_the_defaults():
    bill = price(WORKBENCH, {"location": "us-central1-a"}, HAND_BOOK)
    assert month(bill) == (Decimal("0.134") + 150 * Decimal("0.0002")) * HOURLY


def test_stopped_workbench_keeps_its_disk():
    bill = price(WORKBENCH, {"location": "us-central1-a", "desiredState": "STOPPED"}, HAND_BOOK)
    assert [charge.component for charge in bill.charges] == ["disk:machine"]


DATAPROC = "gcp:dataproc/cluster:Cluster"


def test_dataproc_costs_machines_disks_and_a_fee_per_vcpu():
    config = {
        "masterConfig": {"machineType": "n1-standard-4", "diskConfig": {"bootDiskSizeGb": 100}},
        "workerConfig": {"machineType": "e2-standard-4", "numInstances": 3},
    }
    bill = price(DATAPROC, {"region": REGION, "clusterConfig": config}, HAND_BOOK)
    master = Decimal("0.19") + 100 * Decimal("0.0001") + Decimal("0.04")
    workers = 3 * (Decimal("0.134") + 500 * Decimal("0.0001") + Decimal("0.04"))
    assert month(bill) == (master + workers) * HOURLY
    assert reasons(bill) == ""


def test_dataproc_without_machine_types_runs_the_default_ones():
    pools = {"masterConfig": {"numInstances": 1}, "workerConfig": {"numInstances": 2}}
    named = {key: {**pool, "machineType": "n1-standard-4"} for key, pool in pools.items()}
    bills = [
        price(DATAPROC, {"region": REGION, "clusterConfig": config}, HAND_BOOK) for config in (pools, named)
    ]
    assert month(bills[0]) == month(bills[1]) > 3 * 730 * 0.19
    assert {charge.item for charge in bills[0].charges} >= {"n1-standard-4", "dataproc:vcpu"}


def test_place_in_capitals_is_the_same_place():
    small, capital = (
        price("gcp:compute/disk:Disk", {"zone": zone, "size": 100, "type": "pd-standard"})
        for zone in ("us-central1-a", "US-CENTRAL1-A")
    )
    assert month(small) == month(capital) > 0
    inputs = {"initialNodeCount": 1, "nodeConfig": {"machineType": "e2-standard-4"}}
    for zones in ({}, {"nodeLocations": ["US-CENTRAL1-A", "us-central1-a"]}):
        bills = [
            price("gcp:container/cluster:Cluster", {**inputs, **zones, "location": location})
            for location in ("us-central1", "US-CENTRAL1")
        ]
        assert month(bills[0]) == month(bills[1]) > 73
    assert reasons(bills[0]) == reasons(bills[1])


@pytest.mark.parametrize(
    ("type_", "inputs", "zones"),
    [
        # A cluster's list is additional to its own zone, a pool's is complete.
        ("cluster:Cluster", {"location": "us-central1-a", "nodeLocations": ["us-central1-b"]}, 2),
        ("nodePool:NodePool", {"location": "us-central1-a", "nodeLocations": ["us-central1-b"]}, 1),
        ("nodePool:NodePool", {"location": "us-central1", "nodeLocations": ["us-central1-b"]}, 1),
        ("nodePool:NodePool", {"location": "us-central1"}, 3),
        ("cluster:Cluster", {"location": UNKNOWN}, None),
        ("nodePool:NodePool", {"location": UNKNOWN}, None),
    ],
)
def test_nodes_are_in_the_zones_that_the_provider_makes_of_the_lists(type_, inputs, zones):
    machine = {"initialNodeCount": 2, "nodeConfig": {"machineType": "e2-standard-4"}}
    bill = price(f"gcp:container/{type_}", {**machine, **inputs})
    machines = [charge.quantity.expected for charge in bill.charges if charge.component == "machine"]
    assert machines == ([2 * zones] if zones else [])
    assert zones or "node pool size" in reasons(bill)


def test_secondary_workers_of_dataproc_are_spot():
    config = {
        "masterConfig": {"machineType": "n1-standard-4"},
        "workerConfig": {"machineType": "e2-standard-4", "numInstances": 0},
        "preemptibleWorkerConfig": {"numInstances": 2},
    }
    bill = price(DATAPROC, {"region": REGION, "clusterConfig": config}, HAND_BOOK)
    (spot,) = [charge for charge in bill.charges if charge.component == "secondary:machine"]
    assert (spot.purchase, spot.quantity.expected) == ("spot", 2)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"clusterConfig": {"masterConfig": {"numInstances": HIDDEN}}}, "number of machines is not known"),
        (
            {"clusterConfig": {"masterConfig": {"machineType": HIDDEN}}},
            "machine type is not known until deployment",
        ),
        ({"virtualClusterConfig": {}}, "runs on a GKE cluster"),
    ],
)
def test_dataproc_that_is_not_known_is_listed(inputs, reason):
    assert reason in reasons(price(DATAPROC, {"region": REGION, **inputs}, HAND_BOOK))


def test_vpc_connector_runs_its_minimum():
    bill = price("gcp:vpcaccess/connector:Connector", {"region": REGION}, HAND_BOOK)
    assert month(bill) == 2 * Decimal("0.008") * HOURLY
    assert bill.usd_per_month.high == 3 * Decimal("0.008") * HOURLY


@pytest.mark.parametrize(
    ("type_", "inputs", "item"),
    [
        (
            "gcp:vertex/aiDeploymentResourcePool:AiDeploymentResourcePool",
            {"dedicatedResources": {"machineSpec": {"machineType": "g2-standard-8"}, "minReplicaCount": 1}},
            "vertex:prediction:g2-standard-8",
        ),
        (
            "gcp:vertex/aiEndpointWithModelGardenDeployment:AiEndpointWithModelGardenDeployment",
            {
                "deployConfig": {
                    "dedicatedResources": {
                        "machineSpec": {
                            "machineType": "n1-standard-4",
                            "acceleratorType": "NVIDIA_TESLA_T4",
                            "acceleratorCount": 1,
                        },
                        "minReplicaCount": 1,
                    }
                }
            },
            "vertex:prediction:nvidia-tesla-t4",
        ),
        ("gcp:composer/environment:Environment", {}, "composer:environment_size_small"),
        ("gcp:datafusion/instance:Instance", {"type": "ENTERPRISE"}, "data_fusion:enterprise"),
        (
            "gcp:compute/interconnectAttachment:InterconnectAttachment",
            {"bandwidth": "BPS_10G"},
            "interconnect:attachment:bps_10g",
        ),
        (
            "gcp:looker/instance:Instance",
            {"platformEdition": "LOOKER_CORE_TRIAL"},
            "looker:looker_core_trial",
        ),
        (
            "gcp:managedkafka/cluster:Cluster",
            {"capacityConfig": {"vcpuCount": "3", "memoryBytes": "3221225472"}},
            "managed_kafka:vcpu",
        ),
    ],
)
def test_item_without_a_price_is_named(type_, inputs, item):
    bill = price(type_, {"region": REGION, "location": REGION, **inputs})
    assert f"no on_demand price for {item} in" in reasons(bill)


@pytest.mark.parametrize(
    ("type_", "inputs", "expected"),
    [
        (
            "gcp:bigquery/reservation:Reservation",
            {"slotCapacity": 100, "edition": "ENTERPRISE", "location": REGION},
            100 * Decimal("0.06") * HOURLY,
        ),
        (
            "gcp:dataproc/metastoreService:MetastoreService",
            {"tier": "ENTERPRISE", "location": REGION},
            HOURLY,
        ),
    ],
)
def test_sized_service_costs_its_size(type_, inputs, expected):
    assert month(price(type_, inputs)) == expected


def test_autoscaled_slots_are_a_range():
    inputs = {"slotCapacity": 0, "autoscale": {"maxSlots": 200}, "edition": "ENTERPRISE", "location": REGION}
    bill = price("gcp:bigquery/reservation:Reservation", inputs)
    assert (bill.usd_per_month.low, bill.usd_per_month.high) == (0, 200 * Decimal("0.06") * HOURLY)


@pytest.mark.parametrize(
    ("type_", "inputs"),
    [
        ("gcp:bigquery/reservation:Reservation", {"slotCapacity": HIDDEN}),
        ("gcp:bigquery/reservation:Reservation", {"slotCapacity": 1, "edition": HIDDEN}),
        ("gcp:bigquery/reservation:Reservation", {"slotCapacity": 1, "autoscale": {"maxSlots": HIDDEN}}),
        ("gcp:vpcaccess/connector:Connector", {"maxInstances": HIDDEN}),
        ("gcp:workstations/workstationConfig:WorkstationConfig", {"host": HIDDEN}),
        ("gcp:vertex/aiDeploymentResourcePool:AiDeploymentResourcePool", {"dedicatedResources": HIDDEN}),
        ("gcp:compute/securityPolicy:SecurityPolicy", {"rules": HIDDEN}),
    ],
)
def test_input_that_is_not_known_is_listed(type_, inputs):
    assert reasons(price(type_, {"region": REGION, "location": REGION, **inputs}))
