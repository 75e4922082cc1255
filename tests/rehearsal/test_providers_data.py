"""The data of the simulated clouds names only what the real SDKs have."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from gpufleet.rehearsal.providers import CLOUDS
from gpufleet.rehearsal.providers.schema import load_cloud_schema

SDKS = {"aws": "pulumi_aws", "gcp": "pulumi_gcp", "azure-native": "pulumi_azure_native"}
TYPES = [(cloud, token) for cloud in CLOUDS for token in load_cloud_schema(cloud).types]


class Real:
    """A resource class of an SDK, and its properties by the names that the engine uses."""

    def __init__(self, token):
        package, module, name = token.split(":")
        self.type = getattr(importlib.import_module(f"{SDKS[package]}.{module.split('/')[0]}"), name)
        self.body = inspect.getsource(self.type._internal_init)
        properties = {key: value for key, value in vars(self.type).items() if isinstance(value, property)}
        self.names = {key: getattr(value.fget, "_pulumi_name", key) for key, value in properties.items()}
        arguments = set(inspect.signature(self.type._internal_init).parameters)
        self.inputs = {camel(key, self.names) for key in arguments}
        self.required = {
            camel(key, self.names) for key in re.findall(r"Missing required property '(\w+)'", self.body)
        }


def camel(name, names):
    plain = name.rstrip("_")  # the SDK appends it to reserved names: resource_name_
    return names.get(name) or re.sub(r"_(\w)", lambda match: match[1].upper(), plain)


@pytest.fixture(params=TYPES, ids=[token for _, token in TYPES])
def pair(request):
    cloud, token = request.param
    return load_cloud_schema(cloud).types[token], Real(token)


def test_resource_types_have_the_token_and_required_inputs_of_the_sdk(pair):
    simulated, real = pair
    assert f"'{simulated.token}'" in real.body
    assert set(simulated.required) >= real.required


def test_declared_inputs_exist_in_the_sdk(pair):
    simulated, real = pair
    named = (
        {path.split(".")[0].rstrip("$") for path in simulated.replace}
        | set(simulated.required)
        | ({simulated.name} - {None})
    )
    assert named - real.inputs == set()


def test_declared_computed_outputs_exist_in_the_sdk(pair):
    simulated, real = pair
    assert set(simulated.computed) - set(real.names.values()) == set()


@pytest.mark.parametrize("cloud", CLOUDS)
def test_provider_versions_match_the_sdks(cloud):
    sdk = importlib.import_module(SDKS[cloud])
    assert (
        load_cloud_schema(cloud).version
        == importlib.import_module(f"{sdk.__name__}._utilities").get_version()
    )
