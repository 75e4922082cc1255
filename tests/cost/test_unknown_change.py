"""Test that a change of something without a price is never "does not change": headline, limits, exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest

from gpufleet import cost
from gpufleet.cost import CostPolicy
from gpufleet.cost.analysis.policy import CostLimits, PolicyRule, PolicyScope
from gpufleet.cost.analysis.reports.json_document import load_diff_schema
from gpufleet.cost.inputs.default_region import find_default_regions, parse_region_options
from gpufleet.engine import SECRET, UNKNOWN, StateResource
from gpufleet.errors import InputError

LIMITS = CostPolicy(
    budget_usd_per_month=Decimal(10**6),
    max_increase_usd_per_month=Decimal(100),
    max_increase_percent=Decimal(10),
)
KARPENTER = "kubernetes:karpenter.sh/v1:NodePool"
CLUSTER = "aws:sagemaker/hyperPodCluster:HyperPodCluster"
THROUGHPUT = "aws:bedrock/provisionedModelThroughput:ProvisionedModelThroughput"
STACK = "aws:cloudformation/stack:Stack"


def resource(type_, inputs, name="it", **fields):
    urn = f"urn:pulumi:prod::shop::{type_}::{name}"
    return StateResource(urn, type_, name, inputs, {}, **fields)


def pool(cpu):
    return {"spec": {"limits": {"cpu": cpu}, "template": {}}, "metadata": {"name": "gpu"}}


def hyper_pod(count):
    groups = [{"instanceType": "ml.p5.48xlarge", "instanceCount": count, "instanceGroupName": "train"}]
    return {"clusterName": "train", "instanceGroups": groups}


# What changes in each case of the issue: type, inputs before (None: it is new), inputs after, further fields.
CASES = {
    "provisioned throughput 50 to 500": (THROUGHPUT, {"modelUnits": 50}, {"modelUnits": 500}, {}),
    "HyperPod 4 to 32 p5": (CLUSTER, hyper_pod(4), hyper_pod(32), {}),
    "new CloudFormation stack": (STACK, None, {"templateBody": "{}"}, {}),
    "CloudFormation template": (STACK, {"templateBody": "a"}, {"templateBody": "b"}, {}),
    "eks cluster in another process": (
        "eks:index:Cluster", {"desiredCapacity": 2}, {"desiredCapacity": 80}, {"custom": False, "remote": True},
    ),
    "awsx network in another process": (
        "awsx:ec2:Vpc", {"natGateways": {"strategy": "None"}}, {"natGateways": {"strategy": "OnePerAz"}},
        {"custom": False, "remote": True},
    ),
    "new component in another process": (
        "eks:index:ManagedNodeGroup", None, {"instanceTypes": ["p5.48xlarge"]}, {"custom": False, "remote": True},
    ),
    "Karpenter limits times 50": (KARPENTER, pool("100"), pool("5000"), {}),
    "Helm release": ("kubernetes:helm.sh/v3:Release", {"values": {"n": 1}}, {"values": {"n": 9}}, {}),
    "Fargate profile scaling": (
        "aws:appautoscaling/target:Target", {"maxCapacity": 2}, {"maxCapacity": 200}, {},
    ),
    "unknown package": ("acme:gpu:Farm", {"size": 1}, {"size": 64}, {}),
    "unknown value": (THROUGHPUT, {"modelUnits": 50}, {"modelUnits": UNKNOWN}, {}),
    "value that becomes a secret": (THROUGHPUT, {"modelUnits": 50}, {"modelUnits": SECRET}, {}),
    "removed input": (THROUGHPUT, {"modelUnits": 50, "maximum": 9}, {"modelUnits": 50}, {}),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request):
    type_, old, new, fields = CASES[request.param]
    before = [] if old is None else [resource(type_, old, **fields)]
    return before, [resource(type_, new, **fields)]


@pytest.fixture
def compare(book):
    def build(before, after, policy=None, **change):
        return cost.diff(before, after, policy, book=book, change=cost.StackChange(stack="prod", **change))

    return build


def test_headline_says_that_the_effect_is_not_known(case, compare):
    diff = compare(*case)
    for form in ("table", "markdown", "html", "junit"):
        text = cost.render_diff(diff, form)
        assert "The effect of this change on the monthly cost of prod is not known" in text
        assert "does not change" not in text
        assert "Policy met" not in text
    assert "Not decided" in cost.render_diff(diff, "table")


def test_limits_on_increases_are_not_decided(case, compare):
    verdict = compare(*case, LIMITS).policy
    assert not verdict.passed
    assert verdict.violations == ()
    assert {each.rule for each in verdict.undecided} == {
        "unknown_change", "budget_usd_per_month", "max_increase_usd_per_month", "max_increase_percent",
    }  # fmt: skip


def test_nothing_passes_without_a_policy_either(case, compare):
    verdict = compare(*case).policy
    assert (verdict.passed, verdict.violations) == (False, ())
    assert [each.rule for each in verdict.undecided] == ["unknown_change"]


def test_policy_can_allow_it(case, compare):
    type_ = case[1][0].type
    for allowed, passes in (
        (("*",), True),
        ((type_,), True),
        ((f"{type_[:4]}*",), True),
        (("other:*",), False),
    ):
        diff = compare(*case, replace(LIMITS, unknown_change=allowed))
        assert diff.policy.passed is passes
        assert "is not known" in cost.render_diff(diff, "table").splitlines()[0]


def test_json_has_the_changes_and_keeps_to_its_schema(case, compare):
    diff = compare(*case, LIMITS)
    document = json.loads(cost.render_diff(diff, "json"))
    jsonschema.validate(document, load_diff_schema())
    assert document["change"]["is_known"] is False
    (unknown,) = document["change"]["unknown"]
    assert unknown["urn"] == case[1][0].urn
    assert {check["decided"] for check in document["policy"]["checks"]} == {False}
    assert document["policy"]["passed"] is False


def test_same_inputs_are_no_change(case, compare):
    diff = compare(case[1], case[1], LIMITS)
    assert diff.unknown_changes == ()
    assert diff.policy.passed
    assert "does not change" in cost.render_diff(diff, "table").splitlines()[0]


OWN = {
    "name": "dgx",
    "machine": "DGX H100",
    "nodes": 2,
    "usd_per_hour_source": "inventory/dgx.yaml has no cost facts",
}


@pytest.mark.parametrize("type_", ["gpufleet:onprem:Rack", "gpufleet:onprem:Workstation"])
def test_own_machines_without_a_price_leave_the_headline_known(type_, compare, make_resource):
    def own(**changes):
        return resource(type_, {**OWN, **changes}, custom=False)

    def headline(before, after):
        return cost.render_diff(compare(before, after, LIMITS), "table").splitlines()[0]

    grown = [own(), make_resource(), make_resource("b")]
    assert headline([own(), make_resource()], grown).startswith(
        "This change raises the monthly cost of prod by"
    )
    assert headline([own(), make_resource()], grown).endswith("not counting 1 item without a price.")
    unchanged = headline([own()], [own(template="trainer", owner="ml")])
    assert unchanged.startswith("The monthly cost of prod does not change: it stays at $0.00")
    for before, after in [
        ([], [own()]), ([own()], []), ([own()], [own(nodes=3)]), ([own()], [own(machine="DGX B200")]),
        ([own()], [own(usd_per_hour=UNKNOWN)]), ([own(usd_per_hour=1)], [own()]),
    ]:  # fmt: skip
        assert "is not known: no price for 1 changed resource. What has a price" in headline(before, after)


def test_deleted_resource_has_no_known_effect(case, compare):
    diff = compare(case[1], [], LIMITS)
    assert "is deleted" in str(diff.unknown_changes[0])
    assert not diff.policy.passed


NEVER_BILLED = [
    (THROUGHPUT, {"modelUnits": 1, "tags": {"a": "1"}}, {"modelUnits": 1, "tags": {"a": "2"}}),
    (THROUGHPUT, {"modelUnits": 1, "tagsAll": {"a": "1"}}, {"modelUnits": 1}),
    (STACK, {"templateBody": "a", "name": "x"}, {"templateBody": "a", "name": "y"}),
    (KARPENTER, pool("1"), {**pool("1"), "metadata": {"name": "gpu", "labels": {"team": "ml"}}}),
    ("acme:gpu:Farm", {"description": "old"}, {"description": "new"}),
    ("aws:lambda/function:Function", {"memorySize": 128, "sourceCodeHash": "a"},
     {"memorySize": 128, "sourceCodeHash": "b"}),
    (THROUGHPUT, {"modelUnits": 50}, {"modelUnits": "50"}),
    (THROUGHPUT, {"modelUnits": 50, "commitmentDuration": None}, {"modelUnits": 50}),
    ("random:index/randomId:RandomId", {"byteLength": 4}, {"byteLength": 8}),
    ("tls:index/privateKey:PrivateKey", {"algorithm": "RSA"}, {"algorithm": "ED25519"}),
    ("command:local:Command", {"create": "a"}, {"create": "b"}),
    ("kubernetes:core/v1:ConfigMap", {"data": {"a": "1"}}, {"data": {"a": "2"}}),
    ("kubernetes:apps/v1:Deployment", {"spec": {"replicas": 1}}, {"spec": {"replicas": 9}}),
    ("aws:iam/role:Role", {"assumeRolePolicy": "a"}, {"assumeRolePolicy": "b"}),
    ("my:own:Component", {"size": 1}, {"size": 2}),
    ("aws:s3/bucket:Bucket", {"bucket": "a"}, {"bucket": "b", "forceDestroy": True}),
    ("aws:sqs/queue:Queue", {"delaySeconds": 1}, {"visibilityTimeoutSeconds": 9, "messageRetentionSeconds": 60,
                                                "receiveWaitTimeSeconds": 2}),
    ("aws:autoscaling/group:Group", {"minSize": 2, "maxSize": 4, "defaultCooldown": 9},
     {"minSize": 2, "maxSize": 4, "healthCheckType": "ELB", "terminationPolicies": ["Default"]}),
    ("aws:ec2/instance:Instance", {"instanceType": "acme", "userData": "a"}, {"instanceType": "acme", "userData": "b"}),
    ("gcp:storage/bucket:Bucket", {}, {"uniformBucketLevelAccess": True, "forceDestroy": True}),
    ("azure-native:storage:StorageAccount", {}, {"minimumTlsVersion": "TLS1_2"}),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "old", "new"), NEVER_BILLED)
def test_what_never_bills_is_no_noise(compare, type_, old, new):
    custom = not type_.startswith("my:")
    diff = compare([resource(type_, old, custom=custom)], [resource(type_, new, custom=custom)], LIMITS)
    assert diff.unknown_changes == ()
    assert diff.policy.passed


def test_priced_resource_with_an_unpriced_component(make_resource, compare):
    def instance(iops, machine="g5.xlarge"):
        disk = {"volumeSize": 100, "volumeType": "acme", "iops": iops}
        return make_resource(inputs={"instanceType": machine, "region": "us-east-1", "rootBlockDevice": disk})

    diff = compare([instance(3000)], [instance(90_000)], LIMITS)
    (change,) = diff.unknown_changes
    assert change.inputs == ("rootBlockDevice.iops",)
    assert not diff.policy.passed


def test_priced_change_is_decided(make_resource, compare):
    unchanged = resource(THROUGHPUT, {"modelUnits": 50})
    diff = compare([unchanged], [unchanged, make_resource()], LIMITS)
    assert diff.unknown_changes == ()
    assert {each.rule for each in diff.policy.violations} == {
        "max_increase_usd_per_month", "max_increase_percent",
    }  # fmt: skip


def test_template_of_an_unpriced_group_counts(compare):
    template_type = "aws:ec2/launchTemplate:LaunchTemplate"

    def sides(kind, **fields):
        template = resource(template_type, {"instanceType": kind}, "template")
        user = resource("acme:gpu:Farm", {"template": UNKNOWN}, "farm",
                        property_dependencies={"template": (template.urn,)}, **fields)  # fmt: skip
        return [template, user]

    (change,) = compare(sides("g5.xlarge"), sides("p5.48xlarge")).unknown_changes
    assert change.name == "farm"
    assert "changes through template (aws:ec2/launchTemplate:LaunchTemplate): " in str(change)


def test_provider_of_an_unpriced_resource_counts(compare):
    urn = "urn:pulumi:prod::shop::pulumi:providers:aws::west"

    def sides(region):
        provider = StateResource(urn, "pulumi:providers:aws", "west", {"region": region}, {})
        return [provider, resource(THROUGHPUT, {"modelUnits": 50}, provider=f"{urn}::id")]

    assert len(compare(sides("us-east-1"), sides("eu-west-1")).unknown_changes) == 1
    assert compare(sides("us-east-1"), sides("us-east-1")).unknown_changes == ()


def test_changed_file_that_an_opaque_component_names_counts(compare):
    component = resource("kubernetes:yaml:ConfigFile", {"file": "./k8s/pools.yaml"}, custom=False)
    assert compare([component], [component]).unknown_changes == ()
    changed = compare([component], [component], changed_files=frozenset({"k8s/pools.yaml"}))
    assert len(changed.unknown_changes) == 1


def test_pods_count_where_the_cluster_starts_machines_for_them(compare):
    karpenter = resource(KARPENTER, pool("5000"), "pool")

    def deployment(replicas, image):
        spec = {"replicas": replicas, "template": {"spec": {"containers": [{"image": image}]}}}
        return resource("kubernetes:apps/v1:Deployment", {"spec": spec}, "train")

    def changed(old, new, *others):
        return compare([*others, old], [*others, new]).unknown_changes

    assert changed(deployment(1, "a"), deployment(100, "a")) == ()
    assert changed(deployment(1, "a"), deployment(1, "b"), karpenter) == ()
    (change,) = changed(deployment(1, "a"), deployment(100, "a"), karpenter)
    assert change.name == "train"


def test_unchanged_preview_step_is_no_change(compare):
    old, new = resource(STACK, {"templateBody": "a"}), resource(STACK, {"templateBody": "b"})
    assert compare([old], [new], ops={new.urn: "same"}).unknown_changes == ()
    assert len(compare([old], [new], ops={new.urn: "update"}).unknown_changes) == 1


def test_secret_that_the_engine_reports_as_changed(compare):
    both = resource(THROUGHPUT, {"modelUnits": SECRET})
    assert compare([both], [both]).unknown_changes == ()
    keys = {both.urn: ("modelUnits",)}
    assert len(compare([both], [both], reported_keys=keys).unknown_changes) == 1


def test_state_before_has_what_its_provider_filled_in(compare):
    old = resource(STACK, {"templateBody": "a", "onFailure": "ROLLBACK", "__defaults": ["onFailure"]})
    new = resource(STACK, {"templateBody": "a"})
    assert compare([old], [new], is_deployed_before=True).unknown_changes == ()
    looked_up = resource(STACK, {"templateBody": "a", "notificationArns": ["<topic>"]})
    deployed = resource(STACK, {**old.inputs, "notificationArns": ["arn:aws:sns:x"]})
    assert compare([deployed], [looked_up], is_deployed_before=True).unknown_changes == ()
    assert len(compare([old], [resource(STACK, {})], is_deployed_before=True).unknown_changes) == 1


# Rules in a part of the stack.
def rule(when=None, **fields):
    limits = CostLimits(max_increase_usd_per_month=Decimal(100), **fields.pop("limits", {}))
    return CostPolicy(rules=(PolicyRule("capped", PolicyScope(**(when or {})), limits, **fields),),
                      unknown_change=("*",))  # fmt: skip


def owned(units):
    return [resource(THROUGHPUT, {"modelUnits": units, "tags": {"owner": "ml", "gpufleet-pool": "train"}})]


@pytest.mark.parametrize(
    ("when", "undecided"),
    [
        ({"owner": "ml"}, True),
        ({"pool": "train"}, True),
        ({"project": "shop"}, True),
        ({"owner": "web"}, False),
    ],
)
def test_rule_is_undecided_only_in_its_scope(compare, when, undecided):
    policy = rule(when, limits={"unknown_change": ()})
    verdict = compare(owned(50), owned(500), policy).policy
    assert [each.rule for each in verdict.undecided] == ["capped"] * undecided


def test_rule_inherits_what_the_policy_allows(compare):
    assert compare(owned(50), owned(500), rule()).policy.passed
    strict = replace(rule(), unknown_change=None)
    assert not compare(owned(50), owned(500), strict).policy.passed


def test_rule_for_each_pool_names_the_undecided_one(compare):
    policy = rule(limits={"unknown_change": ()}, each="pool")
    (undecided,) = compare(owned(50), owned(500), policy).policy.undecided
    assert undecided.message.startswith("pool train: not decided, because")


def test_rule_that_warns_reports_the_undecided_limit(compare):
    diff = compare(owned(50), owned(500), rule(limits={"unknown_change": ()}, is_advice=True))
    assert diff.policy.passed
    assert any(text.startswith("capped: not decided") for text in diff.warnings)


@pytest.mark.parametrize(
    "when", [{"owner": "nobody"}, {"pool": "trian"}, {"stack": "prdo*"}, {"project": "x"}]
)
@pytest.mark.parametrize("form", ["table", "markdown", "json", "html", "junit"])
def test_rule_that_selects_nothing_is_a_warning(compare, when, form):
    diff = compare(owned(50), owned(50), rule(when))
    assert "policy rule capped selects nothing here" in cost.render_diff(diff, form).replace("\\", "")


def test_policy_file_has_the_setting(tmp_path):
    path = tmp_path / "policy.yaml"
    for text, allowed in (("allow", ("*",)), ("forbid", ()), ("[aws:bedrock/*]", ("aws:bedrock/*",))):
        path.write_text(f"unknown_change: {text}\n")
        assert cost.load_policy(path).unknown_change == allowed


# Previews whose steps are not all that the engine counts.
def preview(steps, **counts):
    return {"steps": steps, "changeSummary": counts}


@pytest.mark.parametrize(
    "document", [preview([], create=7), preview([], same=3, update=1), preview(None, create=1)]
)
def test_preview_without_the_steps_that_it_counts(document):
    diff = cost.diff_from_preview(document)
    assert not diff.policy.passed
    assert "the preview counts more" in cost.render_diff(diff, "table").splitlines()[0]
    assert json.loads(cost.render_diff(diff, "json"))["change"]["is_known"] is False


def test_preview_without_unchanged_resources_lists_every_change():
    assert cost.diff_from_preview(preview([], same=7)).policy.passed


def test_command_ends_with_1_unless_the_policy_allows_it(gpufleet, tmp_path):
    (tmp_path / "preview.json").write_text(json.dumps(preview([], create=7)))
    (tmp_path / "policy.yaml").write_text("unknown_change: allow\nmax_increase_usd_per_month: 5\n")
    arguments = ("cost", "diff", "--preview", "preview.json")
    refused = gpufleet(*arguments, cwd=tmp_path)
    assert refused.returncode == 1
    assert "to accept it: unknown_change in the policy" in refused.stderr
    allowed = gpufleet(*arguments, "--policy", "policy.yaml", cwd=tmp_path)
    assert allowed.returncode == 0, allowed.stderr


def test_prices_of_two_days_are_no_change_of_the_stack(gpufleet, project):
    result = gpufleet("cost", "diff", "-s", "dev", "--prices-before", "2026-07-01", cwd=project)
    assert result.returncode == 0, result.stderr


def test_command_compares_a_component_in_another_process_with_a_git_ref(gpufleet, tmp_path):
    source = Path(__file__).resolve().parents[1] / "cases" / "programs" / "remote-eks"
    root = tmp_path / "project"
    shutil.copytree(source, root)
    (root / "policy.yaml").write_text("max_increase_usd_per_month: 1\n")
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
        subprocess.run([*git, *command], cwd=root, check=True)
    arguments = ("cost", "diff", "-s", "dev", "--base", "HEAD", "--policy", "policy.yaml")
    assert gpufleet(*arguments, cwd=root).returncode == 0
    program = root / "__main__.py"
    program.write_text(program.read_text().replace('"desiredCapacity": 2', '"desiredCapacity": 80'))
    grown = gpufleet(*arguments, cwd=root)
    assert grown.returncode == 1
    # 78 nodes of 0.526 USD an hour, each with a public address of 0.005 and a disk of 20 GiB
    assert "This change raises the monthly cost of dev by $30,391.14 " in grown.stdout
    assert "Policy met" not in grown.stdout


# A region that is not known until deployment.
AWS_MACHINE = ("aws:ec2/instance:Instance", {"instanceType": "p4d.24xlarge", "subnetId": "s"})
AZURE_DISK = ("azure-native:compute:Disk", {"diskSizeGB": 128, "sku": {"name": "Premium_LRS"}})
GOOGLE_MACHINE = (
    "gcp:compute/instance:Instance",
    {"machineType": "n1-standard-8", "bootDisk": {"source": "d"}},
)
DEFAULT_REGIONS = parse_region_options(["us-east-1", "us-central1", "azure=eastus"])


def in_region(package, machine, inputs, name="west", **fields):
    urn = f"urn:pulumi:prod::shop::pulumi:providers:{package}::{name}"
    provider = StateResource(urn, f"pulumi:providers:{package}", name, inputs, {})
    return [provider, resource(*machine, provider=f"{urn}::id", **fields)]


@pytest.mark.parametrize(
    ("key", "machine"),
    [
        ("region", AWS_MACHINE),
        ("region", GOOGLE_MACHINE),
        ("zone", GOOGLE_MACHINE),
        ("location", AZURE_DISK),
    ],
)
@pytest.mark.parametrize(("hidden", "why"), [(UNKNOWN, "not known until deployment"), (SECRET, "a secret")])
def test_provider_with_an_unreadable_region_has_no_price(book, key, machine, hidden, why):
    package = machine[0].partition(":")[0]
    known = cost.price_resources(in_region(package, machine, {}), book, regions=DEFAULT_REGIONS)
    bill = cost.price_resources(in_region(package, machine, {key: hidden}), book, regions=DEFAULT_REGIONS)
    assert known.charges
    assert not bill.charges
    assert any(gap.reason.endswith(f"in a region that is {why}") for gap in bill.unpriced_resources)


def test_provider_that_loses_its_region_is_an_unknown_change(book):
    sides = (in_region("aws", AWS_MACHINE, {"region": region}) for region in ("us-east-1", UNKNOWN))
    diff = cost.diff(*sides, LIMITS, book=book, regions=DEFAULT_REGIONS)
    assert "is not known" in cost.render_diff(diff, "table").splitlines()[0]
    assert not diff.policy.passed


@pytest.mark.parametrize(
    ("machine", "key"), [(AWS_MACHINE, "region"), (GOOGLE_MACHINE, "zone"), (AZURE_DISK, "location")]
)
def test_resource_with_an_unreadable_region_has_no_price(book, machine, key):
    type_, inputs = machine
    bill = cost.price_resources([resource(type_, {**inputs, key: UNKNOWN})], book, regions=DEFAULT_REGIONS)
    assert not bill.charges


def test_unknown_zone_of_aws_is_in_the_region_of_the_provider(book):
    type_, inputs = AWS_MACHINE
    machine = resource(type_, {**inputs, "availabilityZone": UNKNOWN})
    assert cost.price_resources([machine], book, regions=DEFAULT_REGIONS).charges


@pytest.mark.parametrize(
    ("machine", "key", "group"),
    [
        (AZURE_DISK, "location", "azure-native:resources:ResourceGroup"),
        (GOOGLE_MACHINE, "zone", "gcp:compute/network:Network"),
    ],
)
def test_place_of_a_resource_without_one_is_the_default(book, machine, key, group):
    """``location=group.location`` is unknown without an engine if the group takes the provider's location."""
    type_, inputs = machine
    source = resource(group, {}, "group")
    disk = resource(type_, {**inputs, key: UNKNOWN}, property_dependencies={key: (source.urn,)})
    middle = resource(group, {key: UNKNOWN}, "middle", property_dependencies={key: (source.urn,)})
    far = replace(disk, property_dependencies={key: (middle.urn,)})

    def count(*resources):
        bill = cost.price_resources(resources, book, regions=DEFAULT_REGIONS)
        return sum(each.urn == disk.urn for each in bill.charges)

    assert count(disk, source)
    assert count(far, middle, source)
    assert not count(disk, replace(source, inputs={key: "us-east1"}))
    cycle = replace(middle, property_dependencies={key: (middle.urn,)})
    assert not count(replace(disk, property_dependencies={key: (cycle.urn,)}), cycle)


def test_explicit_provider_without_a_region_has_that_of_the_environment_alone(book, tmp_path):
    (tmp_path / "Pulumi.yaml").write_text("name: shop\nruntime: python\n")
    (tmp_path / "Pulumi.prod.yaml").write_text("config: {'aws:region': us-west-2}\n")

    def regions(environment, name):
        defaults = find_default_regions({}, environment, tmp_path, "prod", "shop")
        bill = cost.price_resources(in_region("aws", AWS_MACHINE, {}, name), book, regions=defaults)
        return {charge.region for charge in bill.charges}

    assert regions({"AWS_REGION": "us-east-1"}, "west") == {"us-east-1"}
    assert regions({"AWS_REGION": "us-east-1"}, "default_7_51_1") == {"us-west-2"}
    assert regions({}, "west") == set()


# What sets the size or the use of something without a price. Each row: the setter, its input, the target.
GROUP = ("aws:autoscaling/group:Group", {"minSize": 2, "maxSize": 4, "launchConfiguration": "elsewhere"})
FUNCTION = ("aws:lambda/function:Function", {"memorySize": 128})
BUCKET = ("aws:s3/bucket:Bucket", {})
SETTERS = [
    ("aws:autoscaling/schedule:Schedule", "autoscalingGroupName", GROUP),
    ("aws:autoscaling/policy:Policy", "autoscalingGroupName", GROUP),
    ("aws:appautoscaling/policy:Policy", "resourceId", ("aws:ecs/service:Service", {"launchType": "FARGATE"})),
    ("gcp:compute/autoscaler:Autoscaler", "target", ("gcp:compute/instanceGroupManager:InstanceGroupManager", {})),
    ("azure-native:insights/v20221001:AutoscaleSetting", "targetResourceUri",
     ("azure-native:compute:VirtualMachineScaleSet", {"sku": {"name": "acme", "capacity": 2}})),
    ("azure:monitoring/autoscaleSetting:AutoscaleSetting", "targetResourceId",
     ("azure:compute/linuxVirtualMachineScaleSet:LinuxVirtualMachineScaleSet", {"location": "eastus"})),
    ("aws:lambda/eventSourceMapping:EventSourceMapping", "functionName", FUNCTION),
    ("aws:cloudwatch/eventTarget:EventTarget", "arn", FUNCTION),
    ("aws:s3/bucketVersioning:BucketVersioning", "bucket", BUCKET),
    ("aws:s3/bucketLifecycleConfigurationV2:BucketLifecycleConfigurationV2", "bucket", BUCKET),
    ("azure-native:storage:ManagementPolicy", "accountName", ("azure-native:storage:StorageAccount", {})),
]  # fmt: skip


@pytest.fixture(params=SETTERS, ids=lambda row: row[0])
def setter(request):
    """Return a target without a price, and a function that declares what sets its size."""
    type_, key, (target_type, inputs) = request.param
    target = resource(target_type, inputs, "web")

    def declare(size, reference=UNKNOWN):
        urns = () if isinstance(reference, str) else (target.urn,)
        inputs = {key: reference, "maxSize": size}
        return resource(type_, inputs, "nightly", property_dependencies={key: urns})

    return replace(
        target, inputs={**inputs, "name": "web", "accountName": "web", "vmScaleSetName": "web"}
    ), declare


def test_what_sets_a_size_is_an_input_of_its_target(setter, compare):
    target, declare = setter
    for before, after in (
        ([declare(1)], [declare(40)]),
        ([], [declare(40)]),
        ([declare(1)], []),
        ([declare(1, "web")], [declare(40, "web")]),
        ([declare(1, "/subscriptions/x/web")], [declare(1, "/subscriptions/x/other")]),
    ):
        diff = compare([target, *before], [target, *after], LIMITS)
        (change,) = diff.unknown_changes
        assert change.name == "web"
        assert "changes through nightly (" in str(change)
        assert not diff.policy.passed
    unchanged = compare([target, declare(1)], [target, declare(1)], LIMITS)
    assert unchanged.unknown_changes == ()
    assert compare([target, declare(1, "else")], [target, declare(9, "else")]).unknown_changes == ()


def test_size_of_a_target_with_a_price_is_known(make_resource, compare):
    machine = make_resource()
    schedule = resource("aws:autoscaling/schedule:Schedule", {"autoscalingGroupName": UNKNOWN, "maxSize": 4},
                        property_dependencies={"autoscalingGroupName": (machine.urn,)})  # fmt: skip
    assert compare([machine], [machine, schedule]).unknown_changes == ()


def test_setter_that_names_its_target_through_another_resource(compare):
    service = resource("aws:ecs/service:Service", {"launchType": "FARGATE"}, "web")
    target = resource("aws:appautoscaling/target:Target", {"maxCapacity": 4}, "target",
                      property_dependencies={"resourceId": (service.urn,)})  # fmt: skip

    def sides(goal):
        policy = resource("aws:appautoscaling/policy:Policy", {"goal": goal}, "policy",
                          property_dependencies={"resourceId": (target.urn,)})  # fmt: skip
        return [service, target, policy]

    (change,) = compare(sides(50), sides(80)).unknown_changes
    assert change.causes == ("policy (aws:appautoscaling/policy:Policy)",)


def test_rule_of_an_event_counts_through_its_target(compare):
    function = resource(*FUNCTION, "worker")

    def sides(rate):
        rule = resource("aws:cloudwatch/eventRule:EventRule", {"scheduleExpression": rate}, "often")
        target = resource("aws:cloudwatch/eventTarget:EventTarget", {}, "target",
                          property_dependencies={"rule": (rule.urn,), "arn": (function.urn,)})  # fmt: skip
        return [rule, target, function]

    (change,) = compare(sides("rate(1 day)"), sides("rate(1 minute)")).unknown_changes
    assert change.name == "worker"


def test_group_with_a_price_and_unpriced_disks_is_a_raise_and_unknown(compare):
    disk = {"deviceName": "/dev/sdb", "ebs": {"volumeType": "gp3", "snapshotId": "snap-1"}}
    inputs_of_template = {"instanceType": "p4d.24xlarge", "imageId": "ami-1", "blockDeviceMappings": [disk]}
    template = resource("aws:ec2/launchTemplate:LaunchTemplate", inputs_of_template, "t")

    def sides(desired):
        inputs = {"minSize": 1, "maxSize": 40, "desiredCapacity": desired, "region": "us-east-1",
                  "launchTemplate": {"id": UNKNOWN}}  # fmt: skip
        group = resource("aws:autoscaling/group:Group", inputs, "web",
                         property_dependencies={"launchTemplate": (template.urn,)})  # fmt: skip
        return [template, group]

    diff = compare(sides(2), sides(30), LIMITS)
    assert diff.change_usd_per_month > 0
    assert diff.unknown_changes[0].inputs == ("desiredCapacity",)
    assert "max_increase_usd_per_month" in {each.rule for each in diff.policy.violations}
    assert "unknown_change" in {each.rule for each in diff.policy.undecided}


def test_autoscaler_of_pods_counts_where_the_cluster_starts_machines_for_them(compare):
    karpenter = resource(KARPENTER, pool("5000"), "pool")

    def autoscaler(maximum):
        return resource(
            "kubernetes:autoscaling/v2:HorizontalPodAutoscaler", {"spec": {"maxReplicas": maximum}}, "train"
        )

    assert compare([autoscaler(5)], [autoscaler(500)]).unknown_changes == ()
    (change,) = compare([karpenter, autoscaler(5)], [karpenter, autoscaler(500)]).unknown_changes
    assert change.inputs == ("spec.maxReplicas",)


# A rule decides about its part; the changed resource is in pool train, of owner ml.
def verdict_of(compare, *rules, before=None, **limits):
    policy = CostPolicy(
        rules=tuple(
            PolicyRule(f"r{index}", PolicyScope(**when), CostLimits(**fields), **more)
            for index, (when, fields, more) in enumerate(rules)
        ),
        **limits,
    )
    diff = compare(owned(50) if before is None else before, owned(500), policy)
    return diff, [each.rule for each in diff.policy.undecided]


TRAIN, ALLOW, FORBID = {"pool": "train"}, {"unknown_change": ("*",)}, {"unknown_change": ()}
INCREASE = {"max_increase_usd_per_month": Decimal(100)}


@pytest.mark.parametrize(
    ("rules", "limits", "undecided"),
    [
        ([(TRAIN, ALLOW, {})], {}, []),
        ([(TRAIN, {**ALLOW, **INCREASE}, {})], INCREASE, []),
        ([(TRAIN, ALLOW, {}), ({"owner": "ml"}, INCREASE, {})], {}, []),
        ([({"pool": "web"}, ALLOW, {})], {}, ["unknown_change"]),
        ([({"stack": "dev", **TRAIN}, ALLOW, {})], {}, ["unknown_change"]),
        ([(TRAIN, FORBID, {})], ALLOW, ["r0"]),
        ([(TRAIN, FORBID, {})], {}, ["r0"]),
        ([(TRAIN, FORBID, {}), ({"owner": "ml"}, ALLOW, {})], {}, ["r0"]),
        ([(TRAIN, FORBID, {"is_advice": True})], {}, []),
        ([({}, FORBID, {"each": "pool"})], ALLOW, ["r0"]),
        ([(TRAIN, {"unknown_change": ("aws:bedrock/*",)}, {})], {}, []),
        ([(TRAIN, {"unknown_change": ("aws:ec2/*",)}, {})], {}, ["r0"]),
    ],
)
def test_rule_decides_about_changes_of_its_part(compare, rules, limits, undecided):
    assert verdict_of(compare, *rules, **limits)[1] == undecided


@pytest.mark.parametrize("each", ["", "pool"])
def test_rule_of_a_part_does_not_allow_steps_that_are_not_listed(each):
    rule = PolicyRule(
        "r", PolicyScope(pool="*" if each else "train"), CostLimits(unknown_change=("*",)), each
    )
    diff = cost.diff_from_preview(
        preview([], create=7), options=cost.CostOptions(policy=CostPolicy(rules=(rule,)))
    )
    assert not diff.policy.passed


def test_rule_may_have_no_other_limit_than_the_unknown_change(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("rules: [{name: a, when: {pool: w2*}, unknown_change: allow}]\n")
    (rule,) = cost.load_policy(path).rules
    assert rule.limits.unknown_change == ("*",)
    path.write_text("rules: [{name: a, ignore_increase_below_usd_per_month: 5}]\n")
    with pytest.raises(InputError, match=r"a: has no limit; limits: (?!.*ignore_increase).*unknown_change"):
        cost.load_policy(path)
    path.write_text("unknown_change:\n")
    with pytest.raises(
        InputError, match=r"policy.yaml:1: unknown_change: nothing is not allow, forbid, or a list"
    ):
        cost.load_policy(path)


def test_rule_that_selects_nothing_is_neither_met_nor_decided(compare):
    policy = rule({"pool": "nope"}, limits={"budget_usd_per_month": Decimal(1)})
    diff = compare(owned(50), owned(50), policy)
    assert diff.policy.passed
    assert diff.policy.checks == ()
    assert "Policy met" not in cost.render_diff(diff, "table")


def test_undecided_limit_has_the_names_of_the_changes_alone(compare):
    many = [resource(THROUGHPUT, {"modelUnits": 1}, f"it{index}") for index in range(6)]
    (undecided,) = compare([], many).policy.undecided
    assert undecided.message.endswith("is not known: it0, it1, it2, it3 and 2 more")


def test_price_that_is_lost_by_an_update_is_an_update(compare):
    def machine(kind):
        return resource("aws:ec2/instance:Instance", {"instanceType": kind, "region": "us-east-1"})

    lost = compare([machine("p4d.24xlarge")], [machine("acme.large")])
    assert {line.op for line in lost.lines if line.shown_charge.component == "machine"} == {"update"}
    row = next(
        line for line in cost.render_diff(lost, "table").splitlines() if line.startswith("update  it machine")
    )
    assert row.split()[-2:-1] == ["unpriced"]
    found = compare([machine("acme.large")], [machine("p4d.24xlarge")])
    assert {line.op for line in found.lines if line.shown_charge.component == "machine"} == {"update"}
    deleted = compare([machine("p4d.24xlarge")], [])
    assert {line.op for line in deleted.lines} == {"delete"}


@pytest.mark.parametrize(("snapshot", "reason"), [
    ({}, "size is not known until deployment"), ({"snapshotId": "snap-1"}, "size is set by the snapshot"),
])  # fmt: skip
def test_volume_without_a_size(book, snapshot, reason):
    (gap,) = cost.price_resources([resource("aws:ebs/volume:Volume", snapshot)], book).unpriced_resources
    assert gap.reason == reason


@pytest.mark.parametrize(
    ("type_", "key"),
    [
        ("aws:rds/instance:Instance", "enabledCloudwatchLogsExports"),
        ("aws:neptune/cluster:Cluster", "enableCloudwatchLogsExports"),
        ("aws:eks/cluster:Cluster", "enabledClusterLogTypes"),
    ],
)
def test_exported_logs_bill_by_use_elsewhere(compare, type_, key):
    old, new = (
        [resource(type_, {"region": "us-east-1", key: logs})] for logs in (["error"], ["error", "audit"])
    )
    (change,) = compare(old, new).unknown_changes
    assert change.inputs == (key,)
    assert compare(new, new).unknown_changes == ()


def test_exported_logs_of_a_priced_cluster(compare):
    old, new = (
        [
            resource(
                "aws:eks/cluster:Cluster",
                {"region": "us-east-1", "version": "1.34", "enabledClusterLogTypes": logs},
            )
        ]
        for logs in ([], ["audit"])
    )
    assert "its logs bill by use in CloudWatch" in str(compare(old, new).unknown_changes[0])
