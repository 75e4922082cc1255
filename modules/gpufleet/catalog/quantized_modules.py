"""Which matrices of a model a quantisation stores in how many bits: names of modules against the model's tensors."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter, defaultdict
from dataclasses import dataclass

from gpufleet.boundary import shorten_repr
from gpufleet.catalog.architecture import ModelArchitecture, StoredQuantization
from gpufleet.catalog.parameter_count import WeightMatrixGroup, list_weight_matrices
from gpufleet.catalog.quantization_format import KEY, FormatRule, MatrixFormat, ModelQuantization
from gpufleet.errors import InputError

UNQUANTIZED_BITS = 16.0
NEVER_QUANTIZED = {"small", "router", "vision"}  # norms, biases, routers and towers: no method quantises them
LAYER_NUMBER = re.compile(r"(layers|h|blocks|block)\.(\d{1,5})(?=\.|$)")
EXPERT_NUMBER = re.compile(r"experts\.\d{1,5}(?=\.|$)")
PLAIN_GLOB = re.compile(r"^[\w.]*(?:[a-z_]|\.)\*$")  # a name and what it contains, not "layers.1*"
EXPRESSION_SIGNS = re.compile(r"[\^$|()\[\]\\+?]")
MAX_PATTERN_CHARACTERS = 400
MAX_QUANTIFIERS = 4  # of one expression: more could take minutes
MAX_EXPRESSIONS = 256
MAX_LAYERS = 1000  # the largest models have some 130
LAYER = "model.layers.{}."
ATTENTION_NAMES = {
    "q": ("q_proj", "q_b_proj", "qkv_proj"),
    "k": ("k_proj", "qkv_proj"),
    "v": ("v_proj", "kv_b_proj", "qkv_proj"),
    "o": ("o_proj",),
    "latent": ("kv_a_proj_with_mqa", "kv_b_proj"),
}
FEED_FORWARD_NAMES = {
    "gate": ("gate_proj", "gate_up_proj", "w1"),
    "up": ("up_proj", "gate_up_proj", "w3", "fc1"),
    "down": ("down_proj", "w2", "fc2"),
}
BLOCK_NAMES = {
    "dense": ("mlp.",),
    "shared": ("mlp.shared_expert.", "mlp.shared_experts."),
    "routed": ("mlp.experts.0.", "mlp.experts.", "block_sparse_moe.experts.0."),
}


@dataclass(frozen=True)
class _Expression:
    compiled: re.Pattern[str]
    has_digits: bool


class _NamePatterns:
    """The modules that a list of names and expressions selects, by layer."""

    def __init__(self, patterns: tuple[str, ...], where: str, *, has_globs: bool = False) -> None:
        self.names: dict[str, set[int] | None] = {}  # None: in every layer
        self.expressions: list[_Expression] = []
        for pattern in dict.fromkeys(patterns):
            text = pattern.replace("model.language_model.", "model.").replace("language_model.", "")
            text = text.replace(r"language_model\.", "")
            is_expression = text.startswith("re:")
            text = text.removeprefix("re:")
            if len(text) > MAX_PATTERN_CHARACTERS:
                raise _pattern_error("is too long", pattern, where)
            if is_expression or (not has_globs and (EXPRESSION_SIGNS.search(text) or ".*" in text)):
                self.expressions.append(_compile(text, pattern, where))
            elif PLAIN_GLOB.match(text):
                self._add_name(text.removesuffix("*").removesuffix("."))
            elif "*" in text:
                if text.count("*") > MAX_QUANTIFIERS:
                    raise _pattern_error("repeats too much", pattern, where)
                self.expressions.append(_Expression(_translate_glob(text), any(c.isdigit() for c in text)))
            else:
                self._add_name(text)
        if len(self.expressions) > MAX_EXPRESSIONS:
            raise InputError(f"has more than {MAX_EXPRESSIONS} expressions", where=where, key=KEY)

    def _add_name(self, text: str) -> None:
        text = EXPERT_NUMBER.sub("experts.0", text.removesuffix(".weight"))
        match = LAYER_NUMBER.search(text)
        if not match:
            self.names[text] = None
            return
        template = f"{text[: match.start(2)]}{{}}{text[match.end(2) :]}"
        layers = self.names.setdefault(template, set())
        if layers is not None:
            layers.add(int(match[2]))

    def find_layers(self, aliases: tuple[str, ...], layers: range) -> set[int]:
        """Return the layers in which a module of any of these names is selected."""
        selected: set[int] = set()
        for template, numbers in self.names.items():
            if any(_covers(template, alias) for alias in aliases):
                selected |= set(layers) if numbers is None else numbers & set(layers)
        for expression in self.expressions:
            if len(selected) == len(layers):
                break
            for alias in aliases:
                if expression.has_digits:
                    selected |= {n for n in layers if expression.compiled.match(alias.format(n))}
                elif layers and expression.compiled.match(alias.format(layers[-1])):
                    selected |= set(layers)
        return selected


def resolve_quantization(
    model: ModelArchitecture, method: str, quantization: ModelQuantization, where: str
) -> StoredQuantization | None:
    """Return the bits of each tensor of the model, None if nothing is quantised."""
    if model.layers > MAX_LAYERS:
        raise InputError(f"has {model.layers:,} layers, more than any model", where=where, key=KEY)
    rules = [
        (_NamePatterns(rule.patterns, where, has_globs=rule.has_globs), rule) for rule in quantization.rules
    ]
    bits: dict[str, list[tuple[float, float]]] = defaultdict(list)
    elements_by_precision: Counter[str] = Counter()
    for matrix in list_weight_matrices(model):
        if matrix.kind in NEVER_QUANTIZED:
            continue
        formats = _list_layer_formats(matrix, model, quantization, rules)
        total = 0.0
        for chosen in formats:
            each = matrix.element_count / len(formats)
            total += _format_bits(chosen, matrix)
            if chosen:
                elements_by_precision[chosen.precision] += int(each)
        bits[matrix.tensor_name].append((matrix.element_count, total / len(formats)))
    if not elements_by_precision:
        return None
    averages = {name: sum(n * b for n, b in rows) / sum(n for n, _ in rows) for name, rows in bits.items()}
    if quantization.total_bits:
        averages = _spread_total(averages, bits, quantization.total_bits)
    quantized = {name: value for name, value in averages.items() if value != UNQUANTIZED_BITS}
    precision = elements_by_precision.most_common(1)[0][0]
    return StoredQuantization(method, precision, tuple(sorted(quantized.items())), where)


def _list_layer_formats(
    matrix: WeightMatrixGroup,
    model: ModelArchitecture,
    quantization: ModelQuantization,
    rules: list[tuple[_NamePatterns, FormatRule]],
) -> list[MatrixFormat | None]:
    default: MatrixFormat | None = quantization.default
    if matrix.kind == "embedding" and not quantization.has_quantized_embedding:
        return [None]
    if matrix.kind == "output" and not quantization.has_quantized_output:
        default = None
    if quantization.only_experts and model.experts and not matrix.routed:
        default = None
    layers, aliases = _layer_range(matrix, model), _list_aliases(matrix)
    chosen: dict[int, MatrixFormat | None] = {}
    for patterns, rule in rules:
        for layer in patterns.find_layers(aliases, layers):
            chosen.setdefault(layer, rule.format)
    return [chosen.get(layer, default) for layer in layers]


def _format_bits(chosen: MatrixFormat | None, matrix: WeightMatrixGroup) -> float:
    if chosen is None:
        return UNQUANTIZED_BITS
    return chosen.bits + chosen.matrix_bits / (matrix.rows * matrix.columns)


def _spread_total(
    averages: dict[str, float], bits: dict[str, list[tuple[float, float]]], total: float
) -> dict[str, float]:
    elements = sum(n for name, rows in bits.items() if averages[name] < UNQUANTIZED_BITS for n, _ in rows)
    return {name: total / elements if value < UNQUANTIZED_BITS else value for name, value in averages.items()}


def _layer_range(matrix: WeightMatrixGroup, model: ModelArchitecture) -> range:
    if matrix.kind in {"embedding", "output"}:
        return range(1)
    if matrix.tensor_name.startswith(("routed", "shared")) and model.experts:
        return range(model.experts.dense_layers, model.layers)
    if matrix.tensor_name.startswith("dense") and model.experts:
        return range(model.experts.dense_layers)
    return range(model.layers)


def _list_aliases(matrix: WeightMatrixGroup) -> tuple[str, ...]:
    if matrix.kind == "embedding":
        return ("model.embed_tokens", "model.wte")
    if matrix.kind == "output":
        return ("lm_head",)
    if matrix.kind in ATTENTION_NAMES:
        return tuple(f"{LAYER}self_attn.{name}" for name in ATTENTION_NAMES[matrix.kind])
    if matrix.kind == "linear":
        return (f"{LAYER}linear_attn.in_proj_qkvz", f"{LAYER}linear_attn.in_proj_qkv")
    part, kind = matrix.tensor_name.split()
    return tuple(f"{LAYER}{block}{name}" for block in BLOCK_NAMES[part] for name in FEED_FORWARD_NAMES[kind])


def _covers(template: str, alias: str) -> bool:
    """Return whether the name selects this module: itself, one that contains it, or a part of its name."""
    return f".{template.strip('.')}." in f".{alias}."


def _translate_glob(text: str) -> re.Pattern[str]:
    """Return the expression of a name with wildcards; "model.layers.0.mlp" also selects what it contains."""
    return re.compile(fnmatch.translate(text).removesuffix(r"\Z") + r"(?:\.|\Z)")


def _compile(text: str, pattern: str, where: str) -> _Expression:
    if sum(text.count(sign) for sign in "*+{") > MAX_QUANTIFIERS or re.search(r"\)[*+{]", text):
        raise _pattern_error("repeats too much", pattern, where)
    try:
        compiled = re.compile(text)
    except (re.error, OverflowError) as error:
        raise _pattern_error("is not an expression", pattern, where) from error
    return _Expression(compiled, has_digits=bool(re.search(r"\d|\[|\\d", text)))


def _pattern_error(problem: str, pattern: str, where: str) -> InputError:
    return InputError(
        f"{shorten_repr(pattern)} {problem}", where=where, key=KEY, remedy="shorten the name of the module"
    )
