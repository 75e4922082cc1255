"""The model catalogue: architectures by name, from a Hugging Face ``config.json`` or from a GGUF header."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from gpufleet.catalog.architecture import Architecture, Experts, LatentAttention
from gpufleet.catalog.naming import is_part
from gpufleet.catalog.parameters import counted
from gpufleet.catalog.table import Row, rows
from gpufleet.errors import InputError

CLOSE = 0.6  # difflib's own default


@cache
def models() -> dict[str, Architecture]:
    """Return every model of the catalogue by its name."""
    return {name: _architecture(row) for name, row in _rows().items()}


def model(name_or_path: str) -> Architecture:
    """Return the model of that name, of an unambiguous part of it, or of a config.json, folder or GGUF file."""
    known = _rows()
    if name_or_path in known:
        return _named(name_or_path)
    if _is_path(name_or_path):
        return _from_path(Path(name_or_path))
    wanted = plain(name_or_path)
    matches = _matches(wanted)
    if len(matches) == 1:
        return _named(matches[0])
    if matches:
        raise InputError(f"model {name_or_path!r} is ambiguous", remedy=f"name one of: {_some(matches)}")
    close = get_close_matches(name_or_path.lower(), {n.lower(): n for n in known}, n=3, cutoff=CLOSE)
    offered = [name for name in known if name.lower() in close]
    raise InputError(
        f"unknown model {name_or_path!r}",
        remedy=f"did you mean {' or '.join(offered)}?"
        if offered
        else f"the catalogue has {_some(list(known))}",
    )


def plain(text: str) -> str:
    """Return the name without case, punctuation, an owner before it or a word for tuning behind it."""
    return "".join(_words(text))


def _words(text: str) -> list[str]:
    words = re.sub(r"[^a-z0-9]+", " ", text.lower().rsplit("/", 1)[-1]).split()
    return [word for word in words if word not in {"instruct", "chat", "it", "hf", "base", "meta"}]


def _matches(wanted: str) -> list[str]:
    if not wanted:
        return []
    names = {name: {plain(name), *map(plain, row["aliases"].split())} for name, row in _rows().items()}
    exact = [name for name, forms in names.items() if wanted in forms]
    return exact or [name for name, row in _rows().items() if _is_part(wanted, name, row)]


def _is_part(wanted: str, name: str, row: Row) -> bool:
    """Tell whether it stands in the name from a word on; "llama-3" is no part of LLaMA-30B."""
    return any(is_part(wanted, " ".join(_words(form))) for form in (name, *row["aliases"].split()))


def _is_path(text: str) -> bool:
    path = Path(text)
    named = path.suffix in {".json", ".gguf"} or text.startswith((".", "/", "~"))
    return named or ("/" in text and path.is_dir())


def _from_path(path: Path) -> Architecture:
    from gpufleet.catalog import configfile, ggufheader  # the latter imports numpy when it reads

    path = path.expanduser()
    if path.is_dir():
        path = _inside(path)
    if not path.is_file():
        raise InputError(
            "no such file", where=str(path), remedy="name a config.json, its folder or a GGUF file"
        )
    return ggufheader.read(path) if path.suffix == ".gguf" else configfile.read(path)


def _inside(folder: Path) -> Path:
    config = folder / "config.json"
    if config.is_file():
        return config
    files = sorted(folder.glob("*.gguf"))
    if files:
        return files[0]
    raise InputError("neither config.json nor a GGUF file in it", where=str(folder))


@cache
def _rows() -> dict[str, Row]:
    return {row["name"]: row for row in rows("models.csv")}


@cache
def _named(name: str) -> Architecture:
    return _architecture(_rows()[name])


def _architecture(row: Row) -> Architecture:
    return counted(
        Architecture(
            name=row["name"],
            family=row["family"],
            parameters=0.0,
            active_parameters=0.0,
            layers=int(row["layers"]),
            hidden=int(row["hidden"]),
            heads=int(row["heads"]),
            kv_heads=int(row["kv_heads"]),
            head_dim=int(row["head_dim"]),
            intermediate=int(row["intermediate"] or 0),
            vocabulary=int(row["vocabulary"]),
            tied_embeddings=row["tied"] == "1",
            max_context=int(row["max_context"]),
            experts=_experts(row),
            latent=_latent(row),
            sliding_window=int(row["sliding_window"] or 0),
            sliding_layers=int(row["sliding_layers"] or 0),
            gated=row["gated"] == "1",
            biases=tuple(row["biases"].split()),
            norms=int(row["norms"]),
            qk_norm=int(row["qk_norm"] or 0),
            positions=int(row["positions"] or 0),
            source=row["source"],
            as_of=row["as_of"],
        )
    )


def _experts(row: Row) -> Experts | None:
    if not row["experts"]:
        return None
    return Experts(
        count=int(row["experts"]),
        per_token=int(row["experts_per_token"]),
        shared=int(row["shared_experts"] or 0),
        intermediate=int(row["expert_intermediate"]),
        dense_layers=int(row["dense_layers"] or 0),
        shared_intermediate=int(row["shared_intermediate"] or 0),
    )


def _latent(row: Row) -> LatentAttention | None:
    if not row["kv_rank"]:
        return None
    return LatentAttention(
        kv_rank=int(row["kv_rank"]),
        rope_dim=int(row["rope_dim"]),
        q_rank=int(row["q_rank"] or 0),
        value_dim=int(row["value_dim"]),
        nope_dim=int(row["nope_dim"]),
    )


def _some(names: list[str]) -> str:
    shown = names[:8]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")
