"""The model catalogue: architectures by name, from a Hugging Face ``config.json`` or from a GGUF file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from gpufleet.boundary import build_from_row, decode_json_object
from gpufleet.catalog.accelerator_name import is_part_of_name
from gpufleet.catalog.architecture import (
    ExtraMatrix,
    LatentAttention,
    LayerCache,
    LinearAttention,
    MixtureOfExperts,
    ModelArchitecture,
)
from gpufleet.catalog.data_file import Row, load_catalog_rows
from gpufleet.catalog.machine_facts import matches_name_pattern
from gpufleet.catalog.parameter_count import with_parameter_counts
from gpufleet.errors import InputError

SIMILARITY_CUTOFF = 0.6  # difflib's own default
FILES = ("models.csv", "models_2026.csv")  # the second has the columns that the models since 2025-09 need
FORMAT_SUFFIXES = (
    "bf16",
    "fp8",
    "nvfp4",
    "mxfp4",
)  # end the name of a repository with weights in that format
CACHE_GROUP = re.compile(
    r"(?P<layers>\d+)x(?P<elements>\d+)(?P<bytes>b)?(@(?P<window>\d+))?(/(?P<stride>\d+))?(\^(?P<top>\d+))?(?P<index>i)?"
)
EXTRA_MATRIX = re.compile(r"(?P<kind>[a-z]+):(?P<rows>\d+)x(?P<columns>\d+)(x(?P<layers>\d+))?")


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
    matches = _find_matches(normalize_model_name(name_or_path))
    if len(matches) == 1:
        return _load_model(matches[0])
    if not matches and (model := _find_without_format(name_or_path)):
        return model
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
        remedy=f"did you mean {' or '.join(suggestions)}? If not, give its config.json or GGUF file"
        if suggestions
        else f"it is not in the catalogue: give its config.json or GGUF file, "
        f"or one of {_format_names(list(rows_by_name))}",
    )


def _find_without_format(name: str) -> ModelArchitecture | None:
    """Return the model of a repository whose name ends with the format of its weights, stored in that format."""
    stem, _, suffix = name.rpartition("-")
    if suffix.lower() not in FORMAT_SUFFIXES:
        return None
    matches = _find_matches(normalize_model_name(stem))
    return replace(_load_model(matches[0]), stored_precision=suffix.lower()) if len(matches) == 1 else None


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
    if exact:
        return exact
    parts = [name for name, row in _load_rows().items() if _is_part(query, name, row)]
    return [name for name in parts if _load_rows()[name].get("variant_of", "") not in parts]


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
    return {row["name"]: row for file_name in FILES for row in load_catalog_rows(file_name)}


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
            linear=_build_linear(row),
            caches=_parse_caches(row),
            extra_matrices=_parse_extra_matrices(row),
        )
    )
    return _with_published_format(model)


def _with_published_format(model: ModelArchitecture) -> ModelArchitecture:
    """Return the model with the quantisation in which its owner publishes it, if it is not in 16 bits."""
    row = next(
        (row for row in _load_published_formats() if matches_name_pattern(model.name.lower(), row["models"])),
        None,
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


def _build_linear(row: Row) -> LinearAttention | None:
    if not row.get("linear_layers"):
        return None
    return LinearAttention(
        layers=row.get_integer("linear_layers"),
        key_heads=row.get_integer("linear_key_heads"),
        key_dim=row.get_integer("linear_key_dim"),
        value_heads=row.get_integer("linear_value_heads"),
        value_dim=row.get_integer("linear_value_dim"),
        state_bytes=row.get_integer("linear_state_bytes", default=2),
    )


def _parse_caches(row: Row) -> tuple[LayerCache, ...]:
    """Return the groups of ``LAYERSxELEMENTS[b][@WINDOW][/STRIDE][^TOP][i]``; one empty group for ``none``."""
    text = row.get("cache") or ""
    if text == "none":
        return (LayerCache(layers=0, elements=0),)
    return tuple(
        LayerCache(
            layers=int(match["layers"]),
            elements=0 if match["bytes"] else int(match["elements"]),
            byte_elements=int(match["elements"]) if match["bytes"] else 0,
            window=int(match["window"] or 0),
            stride=int(match["stride"] or 1),
            top=int(match["top"] or 0),
            is_index=bool(match["index"]),
        )
        for match in _match_words(CACHE_GROUP, text, row, "cache")
    )


def _parse_extra_matrices(row: Row) -> tuple[ExtraMatrix, ...]:
    """Return the matrices of ``KIND:ROWSxCOLUMNS[xLAYERS]``."""
    matches = _match_words(EXTRA_MATRIX, row.get("extra_matrices") or "", row, "extra_matrices")
    return tuple(
        ExtraMatrix(match["kind"], int(match["rows"]), int(match["columns"]), int(match["layers"] or 1))
        for match in matches
    )


def _match_words(pattern: re.Pattern[str], text: str, row: Row, column: str) -> Iterator[re.Match[str]]:
    for word in text.split():
        match = pattern.fullmatch(word)
        if match is None:
            raise row.build_cell_error(
                column, f"{word!r} does not have the form that data/README.md describes"
            )
        yield match


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
        latent=row.get_integer("expert_latent", default=0) if "expert_latent" in row else 0,
    )


def _format_names(names: list[str]) -> str:
    listed_names = names[:8]
    return ", ".join(listed_names) + (
        f" and {len(names) - len(listed_names)} more" if len(names) > len(listed_names) else ""
    )
