"""The output of a tool that the controller parses."""

from __future__ import annotations

from typing import Any

from .host import HostAccess, RawCheckResult, build_error_result, build_not_run_result

COMMAND_SECONDS = 10.0


def record_tool_output(host: HostAccess, *argv: str) -> RawCheckResult:
    """Run a tool and record its output; the controller parses it."""
    if host.which(argv[0]) is None:
        return build_not_run_result(f"{argv[0]} is not installed")
    output = host.run(argv, COMMAND_SECONDS)
    raw: dict[str, Any] = {"command": " ".join(argv), "text": output.out[:4000], "code": output.code}
    if host.is_fake_tool(argv[0]):
        raw["fake"] = True
    if output.code:
        return build_error_result(
            f"{argv[0]} exited with code {output.code}: {(output.err or output.out).strip()[:200]}", **raw
        )
    return RawCheckResult("ran", raw=raw)
