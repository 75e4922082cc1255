"""Test merging of JSON files that several programs write."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils.json_merge import merge_json_text, merge_mappings
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

PATH = "/etc/docker/daemon.json"
# What `nvidia-ctk runtime configure --runtime=docker` leaves (cmd/nvidia-ctk, engine/docker; read 2026-11-21).
TOOLKIT = """{
    "runtimes": {
        "nvidia": {
            "args": [],
            "path": "nvidia-container-runtime"
        }
    }
}"""


@pytest.mark.parametrize(
    ("current", "settings", "result"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": None}, {}),
        ({}, {"a": None}, {}),
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": None, "z": 3}}, {"a": {"y": 2, "z": 3}}),
        ({"a": 1}, {"a": {"x": 1, "y": None}}, {"a": {"x": 1}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": None}, {"b": 1}, {"a": None, "b": 1}),
    ],
)
def test_settings_are_merged(current: dict, settings: dict, result: dict) -> None:
    assert merge_mappings(current, settings) == result


def test_existing_settings_are_kept() -> None:
    current = '{"log-driver": "json-file", "data-root": null}'
    merged = json.loads(merge_json_text(current, TOOLKIT, PATH))
    assert merged == {**json.loads(TOOLKIT), "log-driver": "json-file"}


def test_file_with_all_settings_keeps_its_formatting() -> None:
    assert (
        merge_json_text('{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}', TOOLKIT, PATH)
        is TOOLKIT
    )


def test_second_merge_changes_nothing() -> None:
    merged_text = merge_json_text('{"a": {"b": 1}}', TOOLKIT, PATH)
    assert merge_json_text('{"a": {"b": 1}}', merged_text, PATH) == merged_text


@pytest.mark.parametrize("current", [None, "", " \n"])
def test_missing_file_gives_the_settings(current: str | None) -> None:
    assert json.loads(merge_json_text('{"a": 1}', current, PATH)) == {"a": 1}


@pytest.mark.parametrize(
    ("current", "message"), [("{nonsense", "is not JSON"), ("[1]", "does not contain a JSON object")]
)
def test_invalid_file_is_refused(current: str, message: str) -> None:
    with pytest.raises(HostError, match=message) as excinfo:
        merge_json_text('{"a": 1}', current, PATH)
    assert PATH in str(excinfo.value)
    assert excinfo.value.result == {"refused": PATH}
