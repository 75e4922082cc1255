"""One archive about a faulty part for its vendor: identity, timeline, evidence and raw records, redacted.

The same registry gives the same bytes: nothing in the archive depends on when or where it is made.
"""

from __future__ import annotations

import contextlib
import getpass
import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet.boundary import DocumentLimits, Json, read_bytes, write_bytes
from gpufleet.errors import InputError
from gpufleet.nodes import BurnInResult, Node, Registry
from gpufleet.operations import repair
from gpufleet.operations.redaction import Redactor
from gpufleet.operations.text import repair as text_repair

BUG_REPORT = "nvidia-bug-report.log.gz"
_PACKED, UNPACKED_LIMIT = DocumentLimits(bytes=32 << 20), 128 << 20


@dataclass(frozen=True)
class RmaBundle:
    """A written bundle: its file, and the manifest that is in it."""

    path: Path
    manifest: Json

    def format_lines(self) -> Iterator[str]:
        """Yield a line for each file in it, and what was redacted."""
        for row in self.manifest["files"]:
            yield f"{row['sha256'][:12]}  {row['bytes']:>9}  {row['path']}"
        counts = ", ".join(f"{count} {name}" for name, count in self.manifest["redacted"].items())
        yield f"{self.path}: redacted: {counts or 'nothing'}"


def write_rma_bundle(
    registry: Registry,
    reference: str,
    path: Path,
    *,
    bug_report: Path | None = None,
    words: Sequence[str] = (),
) -> RmaBundle:
    """Write a part's bundle; ``words`` are further names that must not be in it."""
    status = _find_one_part(registry, reference)
    report = read_bug_report(bug_report) if bug_report else None
    redactor = Redactor(hosts=_list_host_names(registry, words), users=_list_users(status))
    contents = _collect(registry, status, redactor, report)
    manifest = _build_manifest(contents, redactor)
    contents["manifest.json"] = _dump(manifest)
    write_bytes(path, pack_archive(contents), mode=0o600)
    return RmaBundle(path, manifest)


def _find_one_part(registry: Registry, reference: str) -> repair.PartStatus:
    statuses = repair.find_part_statuses(registry, reference)
    if len(statuses) == 1:
        return statuses[0]
    if not statuses:
        raise InputError(
            f"{reference} has no part with an open fault", remedy="name the part: serial, UUID or id"
        )
    labels = ", ".join(f"{status.part.kind} {status.part.label}" for status in statuses)
    raise InputError(f"{reference} has {len(statuses)} faulty parts", remedy=f"name one: {labels}")


def _list_host_names(registry: Registry, words: Sequence[str]) -> list[str]:
    """Return the names of every node, and the words that the operator gave."""
    return [*words, *(node.name for node in registry.list_nodes())]


def _list_users(status: repair.PartStatus) -> list[str]:
    actors = {entry.actor for entry in status.part.entries if entry.actor}
    with contextlib.suppress(KeyError, OSError):
        actors.add(getpass.getuser())
    return sorted(actors)


def read_bug_report(path: Path) -> str:
    """Return the text of nvidia-bug-report.sh's file, packed or not; InputError for one that is too large."""
    content = read_bytes(path, _PACKED)
    if content.startswith(b"\x1f\x8b"):
        reader = zlib.decompressobj(wbits=31)
        try:
            content = reader.decompress(content, UNPACKED_LIMIT)
        except zlib.error:
            raise InputError("is not a gzip file", where=str(path)) from None
        if reader.unconsumed_tail:
            raise InputError(
                f"is larger than {UNPACKED_LIMIT:,} bytes unpacked",
                where=str(path),
                remedy="send it by itself",
            )
    return content.decode("utf-8", "replace")


def _collect(
    registry: Registry, status: repair.PartStatus, redactor: Redactor, bug_report: str | None
) -> dict[str, bytes]:
    """Return the files of the archive. What they name is learned from all of them before one is redacted."""
    details = repair.build_part_details(registry, status)
    # The nodes of one run share its attempt: another node's records are none of the vendor's business.
    measured = {
        (entry.node, entry.attempt): None for entry in status.part.entries if entry.node and entry.attempt
    }
    results = [
        result for node, attempt in measured for result in registry.list_burn_in_results(node, attempt)
    ]
    nodes = {node.id: node for node in registry.list_nodes()}
    documents: dict[str, Any] = {"part.json": _describe(details, results, nodes)}
    for result in results:
        documents[f"evidence/{result.number}.json"] = result.report
        documents[f"records/{result.number}.jsonl"] = result.records
    for document in documents.values():
        redactor.learn_value(document)
    if bug_report is not None:
        redactor.learn(bug_report)
    contents = {name: _render(name, redactor.redact_value(document)) for name, document in documents.items()}
    timeline = "\n".join(map(text_repair.format_timeline_row, details["timeline"]))
    contents["timeline.txt"] = f"{redactor.redact_text(timeline)}\n".encode()
    if bug_report is not None:
        contents[BUG_REPORT] = _gzip(redactor.redact_text(bug_report).encode())
    return contents


def _describe(details: Json, results: Sequence[BurnInResult], nodes: Mapping[str, Node]) -> Json:
    machines = {result.node: nodes[result.node] for result in results if result.node in nodes}
    systems = [
        {"serial": node.serial, "machine": node.machine, "kind": node.kind} for node in machines.values()
    ]
    return {"part": details, "systems": systems}


def _render(name: str, value: Any) -> bytes:
    if name.endswith(".jsonl"):
        return "".join(f"{json.dumps(row, sort_keys=True)}\n" for row in value).encode()
    return _dump(value)


def _dump(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


def _build_manifest(contents: Mapping[str, bytes], redactor: Redactor) -> Json:
    files = [
        {"path": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in sorted(contents.items())
    ]
    return {"format": "gpufleet.rma/1", "files": files, "redacted": dict(sorted(redactor.counts.items()))}


def _gzip(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as packed:
        packed.write(content)
    return buffer.getvalue()


def pack_archive(contents: Mapping[str, bytes]) -> bytes:
    """Return a tar.gz of files, the same for the same contents."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(contents.items()):
            member = tarfile.TarInfo(f"rma/{name}")
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    return _gzip(buffer.getvalue())
