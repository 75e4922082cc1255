"""Pulumi's plugin server, with the refusals of a simulated cloud as the engine shows those of a real one."""

from __future__ import annotations

from typing import Any

import grpc
from pulumi.provider.experimental.server import ProviderServicer

from gpufleet.rehearsal.providers.faults import CloudError


class CloudServicer(ProviderServicer):
    """Pulumi's servicer; a CloudError is its text alone, where gRPC would add the name of the class."""

    async def Create(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        return await _handle_request(super().Create, request, context)

    async def Update(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        return await _handle_request(super().Update, request, context)

    async def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name
        return await _handle_request(super().Delete, request, context)


async def _handle_request(handler: Any, request: Any, context: Any) -> Any:
    try:
        return await handler(request, context)
    except CloudError as error:
        return await context.abort(grpc.StatusCode.UNKNOWN, str(error))
