"""The model catalogue: architectures by name, from a Hugging Face ``config.json`` or from a GGUF file."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from gpufleet.boundary import build_from_row, decode_json_object
from gpufleet.catalog.accelerator_name import is_part_of_name
from gpufleet.catalog.architecture import LatentAttention, MixtureOfExperts, ModelArchitecture
from gpufleet.catalog.data_file import Row, load_catalog_rows
from gpufleet.catalog.parameter_count import with_parameter_counts
from gpufleet.errors import InputError

SIMILARITY_CUTOFF = 0.6  # difflib's own default


@cache
def load_models() -> dict[str, ModelArchitecture]:
    """Return every model of the catalogue by its name."""
    return {name: _build_architecture(row) for name, row in _load_rows().items()}


def get_model(name_or_path: str) -> ModelArchitecture:
    """Return the model of that name, of an unambiguous part of it, or of a config.json, folder or GGUF file."""
    rows_by_name = _load_rows()
    if name_or_path in rows_by_name:
        return _load_model(name_or_path)
    if _is_path(name_or_path):
        return _read_path(Path(name_or_path))
    query = normalize_model_name(name_or_path)
    matches = _find_matches(query)
    if len(matches) == 1:
        return _load_model(matches[0])
    if matches:
        raise InputError(
            f"model {name_or_path!r} is ambiguous", remedy=f"name one of: {_format_names(matches)}"
        )
    from difflib import get_close_matches

    similar_names = get_close_matches(
        name_or_path.lower(), {n.lower(): n for n in rows_by_name}, n=3, cutoff=SIMILARITY_CUTOFF
    )
    suggestions = [name for name in rows_by_name if name.lower() in similar_names]
    raise InputError(
        f"unknown model {name_or_path!r}",
        remedy=f"did you mean {' or '.join(suggestions)}?"
        if suggestions
        else f"the catalogue has {_format_names(list(rows_by_name))}",
    )


def normalize_model_name(text: str) -> str:
    """Return the name in lower case without punctuation, owner or a word for tuning."""
    return "".join(_split_words(text))


def _split_words(text: str) -> list[str]:
    tokens = re.sub(r"[^a-z0-9]+", " ", text.lower().rsplit("/", 1)[-1]).split()
    return [token for token in tokens if token not in {"instruct", "chat", "it", "hf", "base", "meta"}]


def _find_matches(query: str) -> list[str]:
    if not query:
        return []
    names = {
        name: {normalize_model_name(name), *map(normalize_model_name, row["aliases"].split())}
        for name, row in _load_rows().items()
    }
    exact = [name for name, aliases in names.items() if query in aliases]
    return exact or [name for name, row in _load_rows().items() if _is_part(query, name, row)]


def _is_part(query: str, name: str, row: Row) -> bool:
    """Return whether the name or an alias contains the query; "llama-3" does not match LLaMA-30B."""
    return any(
        is_part_of_name(query, " ".join(_split_words(alias))) for alias in (name, *row["aliases"].split())
    )


def _is_path(text: str) -> bool:
    path = Path(text)
    has_path_form = path.suffix in {".json", ".gguf"} or text.startswith((".", "/", "~"))
    return has_path_form or ("/" in text and path.is_dir())


def _read_path(path: Path) -> ModelArchitecture:
    from gpufleet.catalog import gguf_architecture, huggingface_config

    path = path.expanduser()
    if path.is_dir():
        path = _find_model_file(path)
    if not path.is_file():
        raise InputError(
            "no such file", where=str(path), remedy="give a config.json, its folder or a GGUF file"
        )
    return (
        gguf_architecture.read_gguf_model(path)
        if path.suffix == ".gguf"
        else huggingface_config.read_huggingface_model(path)
    )


def _find_model_file(folder: Path) -> Path:
    config = folder / "config.json"
    if config.is_file():
        return config
    files = sorted(folder.glob("*.gguf"))
    if files:
        return files[0]
    raise InputError("contains neither config.json nor a GGUF file", where=str(folder))


@cache
def _load_rows() -> dict[str, Row]:
    return {row["name"]: row for row in load_catalog_rows("models.csv")}


@cache
def _load_model(name: str) -> ModelArchitecture:
    return _build_architecture(_load_rows()[name])


def _build_architecture(row: Row) -> ModelArchitecture:
    model = with_parameter_counts(
        build_from_row(
            ModelArchitecture,
            row,
            parameters=0.0,
            active_parameters=0.0,
            experts=_build_experts(row),
            latent=build_from_row(LatentAttention, row) if row["kv_rank"] else None,
        )
    )
    return _with_published_format(model)


def _with_published_format(model: ModelArchitecture) -> ModelArchitecture:
    """Return the model with the quantisation in which its owner publishes it, if it is not in 16 bits."""
    row = next(
        (row for row in _load_published_formats() if fnmatchcase(model.name.lower(), row["models"])), None
    )
    if row is None:
        return model
    from gpufleet.catalog.quantization_method import read_quantization_method
    from gpufleet.catalog.quantized_modules import resolve_quantization

    where = f"published_formats.csv: {row['models']}"
    method, quantization = read_quantization_method(decode_json_object(row["settings"], where), where)
    stored = resolve_quantization(model, method, quantization, row["source"])
    return replace(model, quantization=stored, stored_precision=stored.precision if stored else "")


@cache
def _load_published_formats() -> list[Row]:
    return load_catalog_rows("published_formats.csv")


def _build_experts(row: Row) -> MixtureOfExperts | None:
    if not row["experts"]:
        return None
    return MixtureOfExperts(
        count=row.get_integer("experts"),
        per_token=row.get_integer("experts_per_token"),
        shared=row.get_integer("shared_experts", default=0),
        intermediate=row.get_integer("expert_intermediate"),
        dense_layers=row.get_integer("dense_layers", default=0),
        shared_intermediate=row.get_integer("shared_intermediate", default=0),
    )


def _format_names(names: list[str]) -> str:
    listed_names = names[:8]
    return ", ".join(listed_names) + (
        f" and {len(names) - len(listed_names)} more" if len(names) > len(listed_names) else ""
    )
