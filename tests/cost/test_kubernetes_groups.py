"""Test that a Kubernetes kind has its meaning in its own API group only, and that lists bill as their objects do."""

from __future__ import annotations

import pytest

from gpufleet import cost
from gpufleet.engine import UNKNOWN, StateResource

ALB = {
    "metadata": {"annotations": {"alb.ingress.kubernetes.io/group.name": "shared"}},
    "spec": {"ingressClassName": "alb"},
}
BALANCER, INTERNAL = {"spec": {"type": "LoadBalancer"}}, {"spec": {"type": "ClusterIP"}}
KARPENTER = "kubernetes:karpenter.sh/v1:NodePool"


def make_object(type_, inputs=None, name="it"):
    return StateResource(f"urn:pulumi:prod::shop::{type_}::{name}", type_, name, inputs or {}, {})


def price(book, *resources):
    return cost.price_resources(resources, book)


@pytest.mark.parametrize(
    "kind", ["Pod", "Deployment", "ConfigMap", "Role", "StorageClass", "HTTPRoute", "Patch", "FarmList", "FarmPatch",
             "PodList", "DeploymentPatch"],
)  # fmt: skip
def test_kind_of_another_group_is_listed_as_unknown(book, kind):
    (gap,) = price(book, make_object(f"kubernetes:acme.io/v1:{kind}")).unpriced_resources
    assert "unknown type" in gap.reason


@pytest.mark.parametrize(
    "type_",
    ["core/v1:Pod", "core/v1:PodList", "apps/v1:DeploymentPatch", "extensions/v1beta1:DaemonSet",
     "batch/v1beta1:CronJob", "rbac.authorization.k8s.io/v1:RoleBindingList", "core/v1:Binding",
     "traefik.io/v1alpha1:IngressRoute"],
)  # fmt: skip
def test_kind_of_its_own_group_is_free(book, type_):
    assert price(book, make_object(f"kubernetes:{type_}")).unpriced_resources == ()


@pytest.mark.parametrize(
    ("type_", "item", "listed"),
    [
        ("core/v1:ServiceList", BALANCER, "load_balancer"),
        ("core/v1:ServiceList", INTERNAL, ""),
        ("core/v1:PersistentVolumeClaimList", {"spec": {"resources": {"requests": {"storage": "9Ti"}}}}, "disk"),
        ("networking.k8s.io/v1:IngressList", {"spec": {"ingressClassName": "acme"}}, "load_balancer"),
        ("gateway.networking.k8s.io/v1:GatewayList", {"spec": {}}, "load_balancer"),
        ("apps/v1:StatefulSetList", {"spec": {"replicas": 3}}, ""),
        ("core/v1:ServiceList", UNKNOWN, "load_balancer"),
    ],
)  # fmt: skip
def test_object_of_a_list_bills_as_a_single_one(book, type_, item, listed):
    bill = price(book, make_object(f"kubernetes:{type_}", {"items": [item, item]}))
    components = sorted(each.component for each in bill.unpriced_resources)
    assert components == ([f"{listed}:0", f"{listed}:1"] if listed else [])


def test_each_object_of_a_list_has_its_price(book):
    cluster = make_object("aws:eks/cluster:Cluster", {"version": "1.34", "region": "us-east-1"}, "cluster")
    items = {"items": [ALB | {"metadata": {}}, ALB | {"metadata": {}}]}
    bill = price(book, cluster, make_object("kubernetes:networking.k8s.io/v1:IngressList", items))
    components = {each.component for each in bill.charges}
    assert components >= {"load_balancer:0", "load_balancer:1"}


def test_list_of_unknown_objects_is_listed(book):
    (gap,) = price(book, make_object("kubernetes:core/v1:ServiceList", {"items": UNKNOWN})).unpriced_resources
    assert gap.reason == "which objects it lists is not known"


def test_ingress_of_another_group_shares_no_balancer(book):
    cluster = make_object("aws:eks/cluster:Cluster", {"version": "1.34", "region": "us-east-1"}, "cluster")
    other = make_object("kubernetes:acme.io/v1:Ingress", ALB, "a")
    ingress = make_object("kubernetes:networking.k8s.io/v1:Ingress", ALB, "b")
    bill = price(book, cluster, other, ingress)
    assert [each.component for each in bill.charges if each.name == "b"] == ["load_balancer"]


@pytest.mark.parametrize(
    "type_",
    ["apps/v1:Deployment", "apps/v1:DeploymentPatch", "apps/v1:StatefulSet", "apps/v1:DeploymentList"],
)
def test_pods_count_in_each_form_where_the_cluster_starts_machines_for_them(book, type_):
    def sides(replicas):
        spec = {"spec": {"replicas": replicas}}
        inputs = {"items": [spec]} if type_.endswith("List") else spec
        return [make_object(KARPENTER, {"spec": {}}, "pool"), make_object(f"kubernetes:{type_}", inputs)]

    diff = cost.diff(sides(1), sides(50), book=book)
    assert [each.name for each in diff.unknown_changes] == ["it"]
