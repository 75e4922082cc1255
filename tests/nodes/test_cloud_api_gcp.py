"""Google's instances through google-cloud-compute, against a double of Compute Engine."""

from __future__ import annotations

import pytest

import cloud_http
from gpufleet.errors import EnvironmentFault
from gpufleet.nodes.cloud_api import account, gcp
from gpufleet.nodes.cloud_api.instance import CloudGroup

PROJECT = "gpu-fleet-1"
API = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}"
GROUP = CloudGroup(
    "serve", "gcp", "us-central1", "instance_group",
    f"projects/{PROJECT}/regions/us-central1/instanceGroupManagers/dev-serve", "dev-serve", "spot", "llm", "ubuntu",
)  # fmt: skip


def instance(name, number, zone="us-central1-a", labels=None, group=None, **fields):
    """Return an instance in the form of Compute Engine's REST reference."""
    metadata = [{"key": "created-by", "value": group}] if group else []
    return {
        "kind": "compute#instance",
        "id": str(number),
        "name": name,
        "creationTimestamp": "2026-11-20T03:04:05.678-08:00",
        "zone": f"{API}/zones/{zone}",
        "machineType": f"{API}/zones/{zone}/machineTypes/a2-highgpu-1g",
        "status": "RUNNING",
        "labels": {"gpufleet-stack": "dev", "gpufleet-pool": "serve"} if labels is None else labels,
        "metadata": {"kind": "compute#metadata", "items": metadata},
        "networkInterfaces": [
            {"networkIP": f"10.1.0.{number}", "accessConfigs": [{"natIP": f"198.51.100.{number}"}]}
        ],
        "scheduling": {"provisioningModel": "SPOT", "preemptible": True},
        "selfLink": f"{API}/zones/{zone}/instances/{name}",
        **fields,
    }


@pytest.fixture(scope="module")
def service():
    with cloud_http.serve(cloud_http.GoogleService()) as served:
        yield served


@pytest.fixture
def api(service):
    service.routes.clear()
    return gcp.GcpApi(PROJECT, cloud_http.google_credentials(), service.url)


def test_members_of_a_group_are_found_over_zones_and_pages(service, api, lab):
    creator = f"projects/123/regions/us-central1/instanceGroupManagers/{GROUP.name}"
    by_scope = {
        "zones/us-central1-a": [instance("dev-serve-abcd", 11, group=creator)],
        "zones/us-central1-b": [],
        "zones/us-central1-c": [
            instance("dev-serve-efgh", 12, "us-central1-c", group=creator),
            instance("someone-elses", 13, "us-central1-c", labels={"team": "web"}),
            instance("other-stack-1", 14, "us-central1-c", labels={"gpufleet-stack": "other"}),
        ],
    }
    service.aggregate("instances", "instances", by_scope)
    report = gcp.fetch_gcp_instance_report("dev", api, lab.minutes(0), [GROUP])
    first, second = report.observations
    assert report.group_sizes == {GROUP.key: 2}
    assert (report.source, first.name, second.name) == ("gcp:dev", "dev-serve-abcd", "dev-serve-efgh")
    assert first.identity.instance_id == "11"
    assert first.observed["address"] == "10.1.0.11"
    assert first.observed["template"] == "llm"
    assert (second.observed["zone"], second.observed["region"]) == ("us-central1-c", "us-central1")
    assert (first.observed["purchase"], first.observed["machine"]) == ("spot", "a2-highgpu-1g")
    assert first.observed["accelerators"][0]["model"].startswith("A100")
    paths = {path for _, path, _ in service.seen}
    assert paths == {f"/compute/v1/projects/{PROJECT}/aggregated/instances"}


def test_ssh_from_public_networks_uses_the_public_address(service, api, lab):
    service.aggregate("instances", "instances", {"zones/us-central1-a": [instance("dev-serve-abcd", 11)]})
    (seen,) = gcp.fetch_gcp_instance_report("dev", api, lab.minutes(0), prefer_public=True).observations
    assert seen.observed["address"] == "198.51.100.11"


def test_a_refused_token_is_an_environment_fault_with_the_permission(service, lab):
    from google.oauth2.credentials import Credentials

    api = gcp.GcpApi(PROJECT, Credentials(token="stale"), service.url)
    with pytest.raises(EnvironmentFault) as raised:
        gcp.list_gcp_instances(api)
    assert "compute.instances.list" in raised.value.hint


@pytest.mark.parametrize(
    "hostile",
    [
        {"status": 7, "machineType": None},
        {"labels": {"gpufleet-stack": "dev", "gpufleet-pool": "\x1b]0;owned\x07"}},
        {"networkInterfaces": [{"networkIP": "10.0.0.1; rm -rf /"}]},
        {"name": "{{ lookup('pipe', 'id') }}"},
    ],
)
def test_hostile_answers_are_left_out_by_the_registry_or_refused(service, api, lab, hostile, tmp_path):
    from gpufleet.nodes import Registry

    service.aggregate(
        "instances", "instances", {"zones/us-central1-a": [{**instance("dev-serve-abcd", 11), **hostile}]}
    )
    try:
        report = gcp.fetch_gcp_instance_report("dev", api, lab.minutes(0))
    except EnvironmentFault:
        return
    with Registry(f"sqlite:///{tmp_path}/r.db") as registry:
        outcome = registry.apply_source_report(report)
        assert outcome.bad or "status" in hostile
        for node in registry.list_nodes():
            assert node.name.isprintable()
            assert ";" not in (node.address or "")


def test_an_endless_listing_is_refused(service, api, monkeypatch):
    monkeypatch.setattr(account, "MAX_RESOURCES", 3)
    monkeypatch.setattr(account.take_bounded, "__defaults__", (3,))
    many = [instance(f"dev-serve-{number}", number) for number in range(10, 15)]
    service.aggregate("instances", "instances", {"zones/us-central1-a": many})
    with pytest.raises(account.TooManyResources, match="more than 3 resources"):
        gcp.list_gcp_instances(api)
