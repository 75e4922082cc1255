"""Test container files: what is read of them, what is refused, and that no link leads out of the project."""

from __future__ import annotations

import pytest

from gpufleet.errors import InputError
from gpufleet.fleet.container_file import (
    PublishedPort,
    installed_name,
    load_container_file,
    parse_container_file,
    required_engine,
)

COMPOSE = """\
x-common: &common {restart: unless-stopped}
services:
  server:
    <<: *common
    image: ghcr.io/team/server:${TAG:-1}
    ports:
      - "8000:8000"
      - 127.0.0.1:9000:9000/udp
      - "[::1]:9001:9001"
      - "0.0.0.0:9002:9002"
      - {target: 80, published: "8080", host_ip: 10.0.0.1, protocol: tcp, mode: host}
      - "3000-3005:3000-3005"
      - "${PORT}:80"
      - 5000
    environment: [A=b, HF_TOKEN, C=d=e]
    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 4, capabilities: [gpu]}]}}}
  host:
    image: a
    network_mode: host
    ports: ["1:1"]
    environment: {PORT: 8000, EMPTY: null}
"""
QUADLET = """\
# A comment
[Unit]
Description=x

[Container]
Image=quay.io/team/server:1
PublishPort=8000:8000
PublishPort=127.0.0.1::9000
PublishPort=53:53/udp
AddDevice=nvidia.com/gpu=0
AddDevice=nvidia.com/gpu=3
Environment=A=b "C=d e" \\
  F=g
; another comment
[Service]
ExecStartPre=/bin/true
"""


def test_compose_file_is_read_as_its_specification_says():
    server, host = parse_container_file("compose.yaml", COMPOSE).containers
    assert server.ports == (
        PublishedPort(8000, "tcp", ""),
        PublishedPort(9000, "udp", "127.0.0.1"),
        PublishedPort(9001, "tcp", "[::1]"),
        PublishedPort(9002, "tcp", ""),
        PublishedPort(8080, "tcp", "10.0.0.1"),
    )
    assert (server.name, server.image, server.gpu_count) == ("server", "ghcr.io/team/server:${TAG:-1}", 4)
    assert server.environment == {"A": "b", "HF_TOKEN": "", "C": "d=e"}
    assert (host.ports, host.gpu_count, host.environment) == ((), 0, {"PORT": "8000"})


def test_quadlet_is_read_as_a_unit_file():
    (server,) = parse_container_file("x/server.container", QUADLET).containers
    assert (server.name, server.image, server.gpu_count) == ("server", "quay.io/team/server:1", 4)
    assert server.ports == (PublishedPort(8000, "tcp", ""), PublishedPort(53, "udp", ""))
    assert server.environment == {"A": "b", "C": "d e", "F": "g"}


@pytest.mark.parametrize(
    ("request_", "gpu_count"),
    [
        ("gpus: all", 1),
        ("gpus: [{driver: nvidia, count: 2}]", 2),
        ("runtime: nvidia", 1),
        ("devices: [nvidia.com/gpu=all]", 1),
        ("devices: ['amd.com/gpu=5', '/dev/fuse']", 6),
        ("devices: [/dev/kfd, /dev/dri]", 0),
        ("deploy: {resources: {reservations: {devices: [{count: all, capabilities: [gpu]}]}}}", 1),
        (
            "deploy: {resources: {reservations: {devices: [{capabilities: [[gpu]], device_ids: ['0', '3']}]}}}",
            4,
        ),
        ("deploy: {resources: {reservations: {devices: [{capabilities: [gpu], device_ids: [GPU-1a]}]}}}", 1),
        ("deploy: {resources: {reservations: {devices: [{capabilities: [tpu], count: 2}]}}}", 0),
        ("deploy: {resources: {limits: {memory: 1g}}}", 0),
        ("deploy: all", 0),
    ],
)
def test_every_way_to_request_gpus_in_compose_is_counted(request_, gpu_count):
    text = f"services: {{a: {{image: a, {request_}}}}}"
    assert parse_container_file("a.yaml", text).containers[0].gpu_count == gpu_count


@pytest.mark.parametrize(
    ("line", "gpu_count"),
    [
        ("AddDevice=nvidia.com/gpu=all", 1),
        ("AddDevice=amd.com/gpu=7", 8),
        ("AddDevice=/dev/kfd", 0),
        ("PodmanArgs=--gpus all", 1),
        ("PodmanArgs=--device nvidia.com/gpu=1", 2),
        ("AddDevice=nvidia.com/gpu=GPU-1a", 1),
        ("", 0),
    ],
)
def test_every_way_to_request_gpus_in_a_quadlet_is_counted(line, gpu_count):
    text = f"[Container]\nImage=a\n{line}\n"
    assert parse_container_file("a.container", text).containers[0].gpu_count == gpu_count


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("a.yaml", "services: [", r"a.yaml:\d+: is not valid YAML"),
        ("a.yaml", "", "a.yaml: has no services; give a compose file"),
        ("a.yaml", "version: '3'", "has no services"),
        ("a.yaml", "services: {}", "has no services"),
        ("a.yaml", "- a", "has no services"),
        (
            "a.yaml",
            "services: {a: {build: .}}",
            r"a.yaml: services.a: has no image; .* nothing is built there",
        ),
        ("a.yaml", "services: {a: null}", "services.a: has no image"),
        ("a.yaml", "services: {a: {image: !reset a}}", "has the tag"),
        ("a.container", "", r"a.container: has no section \[Container\]; give a quadlet"),
        ("a.container", "[Pod]\nPodName=a\n", r"has no section \[Container\]"),
        ("a.pod", "[Container]\nImage=a\n", r"has no section \[Pod\]"),
        ("a.container", "[Container]\nExec=a\n", r"a.container: \[Container\]: has no Image="),
        ("a.container", "[Container]\nImage=\n", "has no Image="),
        (
            "a.container",
            "[Container]\nImage: a\n",
            r"a.container:2: 'Image: a' is not KEY=VALUE in a \[section\]",
        ),
        ("a.container", "Image=a\n", "a.container:1: 'Image=a' is not KEY=VALUE"),
        ("a.container", "[Container]\nImage=a\nEnvironment='A=b\n", "Environment: has a quotation mark"),
    ],
)
def test_file_that_no_engine_would_run_is_refused_in_one_line(path, text, message):
    with pytest.raises(InputError, match=message) as excinfo:
        parse_container_file(path, text)
    assert "\n" not in str(excinfo.value)


def test_networks_and_volumes_of_quadlets_have_no_container():
    for path, text in (("a.network", "[Network]\n"), ("a.volume", "[Volume]\n"), ("a.pod", "[Pod]\n")):
        assert parse_container_file(path, text).containers == ()


@pytest.mark.parametrize(
    ("path", "name", "engine"),
    [
        ("containers/llm/compose.yaml", "llm.yaml", "docker"),
        ("containers/llm/docker-compose.yml", "llm.yaml", "docker"),
        ("containers/llm.yaml", "llm.yaml", "docker"),
        ("compose.yaml", "compose.yaml", "docker"),
        ("containers/llm.container", "llm.container", "podman"),
        ("containers/llm.volume", "llm.volume", "podman"),
    ],
)
def test_file_has_the_name_that_its_engine_gives_it(path, name, engine):
    assert (installed_name(path), required_engine(path)) == (name, engine)


def test_no_link_leads_out_of_the_project(tmp_path):
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project, outside):
        folder.mkdir()
        (folder / "a.container").write_text("[Container]\nImage=a\n")
    (project / "file.container").symlink_to(outside / "a.container")
    (project / "folder").symlink_to(outside)
    (project / "inside.container").symlink_to("a.container")
    for path in ("file.container", "folder/a.container"):
        with pytest.raises(InputError, match=f"{path}: is a link out of the project"):
            load_container_file(path, project)
    assert load_container_file("inside.container", project).containers[0].image == "a"


def test_large_file_is_refused(tmp_path):
    (tmp_path / "a.container").write_text("[Container]\nImage=a\n" + "# long\n" * 10_000)
    with pytest.raises(InputError, match=r"a\.container: .*(too large|larger|limit|KiB)"):
        load_container_file("a.container", tmp_path)


def test_documented_examples_are_read(repo_root):
    folder = "docs/examples/containers"
    server, cache = load_container_file(f"{folder}/llm/compose.yaml", repo_root).containers
    (trainer,) = load_container_file(f"{folder}/trainer.container", repo_root).containers
    assert [container.gpu_count for container in (server, cache, trainer)] == [1, 0, 1]
    assert load_container_file(f"{folder}/training.network", repo_root).containers == ()
