"""Test what the engine reads when a simulated cloud refuses a request."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from pulumi.provider.experimental.server import ProviderServicer

from gpufleet.rehearsal.providers.faults import CloudError
from gpufleet.rehearsal.providers.servicer import CloudServicer


class AbortedError(Exception):
    pass


class Context:
    async def abort(self, code, details):
        raise AbortedError(code, details)


@pytest.mark.parametrize("call", ["Create", "Update", "Delete"])
def test_a_refusal_is_the_clouds_text_alone(monkeypatch, call):
    async def refuse(*_):
        raise CloudError("InsufficientInstanceCapacity: no p4d.24xlarge")

    monkeypatch.setattr(ProviderServicer, call, refuse)
    servicer = object.__new__(CloudServicer)
    with pytest.raises(AbortedError) as excinfo:
        asyncio.run(getattr(servicer, call)(None, Context()))
    assert excinfo.value.args == (grpc.StatusCode.UNKNOWN, "InsufficientInstanceCapacity: no p4d.24xlarge")
