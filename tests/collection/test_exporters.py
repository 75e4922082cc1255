"""Which exporters a host gets, from where, and what Prometheus is told."""

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.filter.exporters import (
    exporter_not_applied_reasons,
    list_answering_endpoints,
    plan_exporters,
)

DEBIAN = {
    "exporters_system_packages": {
        "node": ["prometheus-node-exporter"],
        "smart": ["prometheus-node-exporter-collectors"],
    },
    "exporters_system_units": {
        "node": ["prometheus-node-exporter.service"],
        "smart": ["prometheus-node-exporter-smartmon.timer"],
        "dcgm": ["nvidia-dcgm-exporter.service"],
    },
    "exporters_system_group": "prometheus",
}
REDHAT = DEBIAN | {"exporters_system_packages": {}, "exporters_system_group": "root"}
SETTINGS = {
    "wanted": ["auto"],
    "vendor": "none",
    "engine": "none",
    "has_nvidia_repository": False,
    "has_blade_agent": False,
    "repositories": [],
    "start_containers": True,
    "listen_address": "",
    "ports": {},
    "images": {},
    "node_arguments": [],
    "web_config": {},
}


def plan(system=DEBIAN, **settings):
    return plan_exporters(system, settings=SETTINGS | settings)


def content_of(exporter_plan, path):
    return next(file["content"] for file in exporter_plan["files"] if file["path"] == path)


def test_debian_has_packages_and_its_timers_publish_through_the_node_exporter():
    planned = plan()
    assert planned["packages"] == ["prometheus-node-exporter", "prometheus-node-exporter-collectors"]
    assert [unit["name"] for unit in planned["units"]] == [
        "prometheus-node-exporter.service",
        "prometheus-node-exporter-smartmon.timer",
    ]
    assert planned["endpoints"] == [{"name": "node", "port": 9100, "scheme": "http"}]
    assert planned["not_applied"] == {}


def test_arguments_go_into_a_file_that_systemd_reads_after_the_package_s_own():
    planned = plan(listen_address="10.0.0.4", ports={"node": 9101}, node_arguments=["--collector.systemd"])
    environment = content_of(planned, "/etc/default/prometheus-node-exporter-gpufleet")
    assert environment.splitlines()[1] == 'ARGS="--web.listen-address=10.0.0.4:9101 --collector.systemd"'
    drop_in = content_of(planned, "/etc/systemd/system/prometheus-node-exporter.service.d/gpufleet.conf")
    assert "EnvironmentFile=/etc/default/prometheus-node-exporter-gpufleet\n" in drop_in


UBUNTU = {
    "exporters_system_packages": DEBIAN["exporters_system_packages"] | {"amd": ["amdgpu-exporter"]},
    "exporters_system_units": DEBIAN["exporters_system_units"] | {"amd": ["amd-metrics-exporter.service"]},
    "exporters_system_group": "prometheus",
}
AMD = {"wanted": ["amd"], "vendor": "amd", "engine": "podman"}


def test_amd_s_package_comes_from_its_repository_and_keeps_the_other_keys_of_its_configuration():
    repositories = [{"name": "amd-device-metrics-exporter"}]
    planned = plan(
        UBUNTU, **AMD, repositories=repositories, ports={"amd": 5001}, web_config={"tls_server_config": {}}
    )
    assert (planned["repositories"], planned["packages"]) == (repositories, ["amdgpu-exporter"])
    assert [unit["name"] for unit in planned["units"]] == ["amd-metrics-exporter.service"]
    config = next(file for file in planned["files"] if file["path"] == "/etc/metrics/config.json")
    assert (config["state"], json.loads(config["content"])) == ("json", {"ServerPort": 5001})
    assert planned["endpoints"] == [{"name": "amd", "port": 5001, "scheme": "http"}], (
        "it reads no web configuration"
    )
    assert planned["web_config"] == []


@pytest.mark.parametrize(
    ("system", "settings"),
    [
        (DEBIAN, {"repositories": []}),
        (UBUNTU, {"repositories": []}),
        (UBUNTU, {"repositories": [{"name": "x"}], "listen_address": "10.0.0.4"}),
    ],
)
def test_amd_s_exporter_is_a_container_where_its_package_does_not_fit(system, settings):
    planned = plan(system, **AMD, **settings)
    assert (planned["repositories"], planned["packages"]) == ([], [])
    assert planned["units"][0]["name"] == "amd-exporter.service"


def test_dcgm_comes_from_nvidia_s_repository_where_the_driver_plan_has_it():
    planned = plan(vendor="nvidia", has_nvidia_repository=True, engine="podman")
    assert "datacenter-gpu-manager-exporter" in planned["packages"]
    drop_in = content_of(planned, "/etc/systemd/system/nvidia-dcgm-exporter.service.d/gpufleet.conf")
    assert "Environment=DCGM_EXPORTER_LISTEN=:9400\n" in drop_in


def test_dcgm_is_a_pinned_container_without_that_repository():
    planned = plan(vendor="nvidia", engine="podman")
    quadlet = content_of(planned, "/etc/containers/systemd/dcgm-exporter.container")
    assert "Image=nvcr.io/nvidia/k8s/dcgm-exporter:4.8.3\n" in quadlet
    assert "AddDevice=nvidia.com/gpu=all\n" in quadlet
    assert {"name": "dcgm", "port": 9400, "scheme": "http"} in planned["endpoints"]


def test_dcgm_without_repository_and_podman_is_reported():
    planned = plan(vendor="nvidia", engine="docker")
    assert "NVIDIA's CUDA repository" in planned["not_applied"]["dcgm"]
    assert {endpoint["name"] for endpoint in planned["endpoints"]} == {"node"}


def test_system_without_packages_gets_containers():
    planned = plan(REDHAT, engine="podman", vendor="amd", listen_address="10.0.0.4")
    assert planned["packages"] == []
    assert [endpoint["name"] for endpoint in planned["endpoints"]] == ["node", "smart", "amd"]
    paths = [file["path"] for file in planned["files"]]
    assert len(set(paths)) == len(paths)
    amd = content_of(planned, "/etc/containers/systemd/amd-exporter.container")
    assert "PublishPort=10.0.0.4:5000:5000\n" in amd


def test_containers_of_a_rehearsal_are_installed_and_not_started():
    planned = plan(REDHAT, wanted=["node"], engine="podman", start_containers=False)
    assert "state" not in planned["units"][0]
    assert planned["not_applied"] == {
        "node": "installed and not started: a rehearsed host runs no containers"
    }


def test_web_configuration_is_one_file_for_the_exporters_group():
    planned = plan(web_config={"tls_server_config": {"cert_file": "/etc/ssl/n.pem"}})
    [file] = planned["web_config"]
    assert (file["path"], file["group"]) == ("/etc/gpufleet/exporter-web.yml", "prometheus")
    assert "cert_file: /etc/ssl/n.pem" in file["content"]
    assert planned["endpoints"] == [{"name": "node", "port": 9100, "scheme": "https"}]


def test_unknown_exporter_is_refused():
    with pytest.raises(AnsibleFilterError, match="exporters_wanted has gpu; known: auto, node"):
        plan(wanted=["gpu"])


@pytest.mark.parametrize("names", ["node", None, [5]])
def test_anything_but_a_list_of_exporters_is_refused(names):
    with pytest.raises(AnsibleFilterError, match=r"exporters_wanted is .*: must be a list, such as \[auto\]"):
        plan(wanted=names)


def test_nothing_wanted_plans_nothing():
    assert plan(wanted=[])["packages"] == []


def test_only_answering_endpoints_are_told_to_prometheus():
    endpoint = {"name": "node", "port": 9100, "scheme": "http"}
    silent = {"name": "dcgm", "port": 9400, "scheme": "http"}
    queries = {
        "results": [
            {"item": endpoint, "failed": False},
            {"item": silent, "failed": True, "msg": "Connection refused"},
        ]
    }
    assert list_answering_endpoints(queries) == [endpoint]
    assert list_answering_endpoints({"results": [{"item": endpoint, "skipped": True}]}) == []
    reasons = exporter_not_applied_reasons(queries, plan=plan(), applied={})
    assert reasons == {"dcgm": "port 9400 does not answer: Connection refused"}
