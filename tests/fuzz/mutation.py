"""Mutate documents by structure and by bytes; every choice comes from a seeded generator."""

from __future__ import annotations

import copy
import json
import marshal
from collections.abc import Callable
from random import Random
from typing import Any

HUGE = 10**400
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 13, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, HUGE, 0.5, -0.0, 1e308, 1e-320,
    float("nan"), float("inf"), float("-inf"),
    "", " ", "0", "-1", "1e999", "nan", "true", "null", "~", "\x00", "a\x00b", "\ud800", "\u202eabc", "\x1b]0;x\x07",
    "\x9b31m", "line\nline", "\r", "\u2028", "\ufeff", "\u200b", "\U000e0041", "x" * 5000, "9" * 5000, "(" * 300,
    "2024-13-01", "2024-02-30", "0000-00-00", "9999-12-31T23:59:60Z", "10:20:30", "0x10", "0o17", "0777", "1_000",
    "=cmd|' /C calc'!A0", "+1+1", "@SUM(A1)", "-2+3", "{{ lookup('pipe', 'id') }}",
    "#jinja2:variable_start_string:'[['",
    "blade[1-99999999]", "blade[01-03", "b[1-3][1-999999][1-9999999]", "[", "]", "*", "../../etc/passwd", "/dev/zero",
    "~/.ssh/id_rsa", "-oProxyCommand=id", "127.0.0.1", "::1", "fe80::1%eth0", "fe80::1%$(id)",
    "urn:pulumi:a::b::c::d",
    "04da6b54-80e4-46f7-96ec-b56ff0331ba9", "[secret]", "(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!",
    [], {}, [[]], [None], {"": None}, {"a": {"a": {"a": []}}}, [1, "a", None, {}], {"name": "x"},
)  # fmt: skip
TOKENS = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b"\\", b"\n", b"\r\n", b"\t", b" ", b"\x00", b"\x1b", b"\x7f",
    b"\xff",
    b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"- ", b"? ", b"&a ", b"*a", b"<<: ",
    b"!!python/object:os.system ", b"!!binary ", b"!!set ", b"| ", b">-\n", b"%YAML 1.1\n", b"---\n", b"...\n", b"# ",
    b"~",
    b"<", b">", b"<!ENTITY a 'b'>", b"&a;", b"&#0;", b"<![CDATA[", b"]]>", b"</", b"\\u0000", b"\\ud800", b"1e999",
    b"-0",
    b"99999999999999999999", b"NaN", b"Infinity", b"0x", b"=", b"+", b"@", b"''", b'""',
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x08\x00\x00\x00", b"\x09\x00\x00\x00",
)  # fmt: skip
DEEPEST = 400
MOST_BYTES = (
    64 * 1024
)  # of a mutated input: larger ones are a matter of limits, which have tests of their own


def mutate(random: Random, seeds: list[bytes], kind: str) -> bytes:
    """Return one mutated input made of one or two seeds; ``kind`` is their format."""
    seed = random.choice(seeds)
    try:
        structured = kind in STRUCTURES and random.random() < 0.65
        content = STRUCTURES[kind](random, seed) if structured else mutate_bytes(random, seed, seeds)
    except RecursionError:  # nested in what was nested before: Python cannot write it down either
        content = b"[" * 1000 + seed
    return content[:MOST_BYTES]


def mutate_bytes(random: Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """Return bytes with one to six small changes: flipped, cut, repeated, moved, spliced, or with tokens put in."""
    content = bytearray(seed)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        at = random.randrange(len(content) + 1)
        end = min(len(content), at + random.choice((1, 2, 4, 8, 30, 200)))
        change = random.randrange(8)
        if change == 0 and content:
            content[min(at, len(content) - 1)] ^= 1 << random.randrange(8)
        elif change == 1:
            content[at:at] = random.choice(TOKENS)
        elif change == 2:
            content[at:end] = random.choice(TOKENS)
        elif change == 3:
            del content[at:end]
        elif change == 4:
            content[at:at] = content[at:end] * random.choice((1, 2, 50))
        elif change == 5:
            content[at:at] = random.choice(TOKENS) * random.choice((2, 70, 700))
        elif change == 6:
            other = random.choice(seeds)
            content[at:end] = other[random.randrange(len(other) + 1) :][: random.choice((8, 64, 1000))]
        elif random.random() < 0.3:
            del content[at:]
    return bytes(content)


def mutate_tree(random: Random, value: Any) -> Any:
    """Return a tree of lists and mappings with one to four places changed."""
    root = [copy_tree(value)]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        holder, key = pick(random, root)
        change_place(random, root, holder, key)
    return root[0]


def copy_tree(value: Any) -> Any:
    """Return a deep copy; ten times as fast as ``copy.deepcopy`` where there is nothing but JSON."""
    try:
        return marshal.loads(marshal.dumps(value))
    except ValueError:  # a date of YAML's, or nested too deep
        return copy.deepcopy(value)


def pick(random: Random, root: list[Any]) -> tuple[Any, Any]:
    """Return a place in a tree, every depth as likely as its neighbours."""
    holder, key = root, 0
    while True:
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or random.random() < 0.15:
            return holder, key
        holder, key = inner, random.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))


def change_place(random: Random, root: list[Any], holder: Any, key: Any) -> None:
    change = random.randrange(9)
    if change <= 3:
        holder[key] = copy_tree(random.choice(VALUES))
    elif change == 4 and holder is not root:
        del holder[key]
    elif change == 5 and isinstance(holder, dict):
        name = random.choice(VALUES)
        holder[name if isinstance(name, str) else f"{key}x"] = holder.pop(key)
    elif change == 6:
        nested = holder[key]
        for _ in range(random.choice((1, 3, 40, DEEPEST))):
            nested = [nested] if random.random() < 0.5 else {"a": nested}
        holder[key] = nested
    elif change == 7:
        other, place = pick(random, root)
        holder[key] = copy_tree(other[place])
    elif isinstance(holder, list) and holder is not root:
        many = random.choice((1, 20, 300))
        holder[key:key] = [holder[key]] * (many if len(repr(holder[key])) * many < MOST_BYTES else 1)
    else:
        holder[key] = [holder[key]] * random.choice((1, 2, 20))


def dump_json(value: Any) -> bytes:
    """Return JSON with everything that a hostile writer puts in: lone surrogates, NaN, long numbers."""
    return json.dumps(value, ensure_ascii=True).encode()


def _json(random: Random, seed: bytes) -> bytes:
    return dump_json(mutate_tree(random, json.loads(seed)))


def _json_lines(random: Random, seed: bytes) -> bytes:
    lines = [json.loads(line) for line in seed.splitlines() if line.strip()]
    mutated = mutate_tree(random, lines)
    rows = mutated if isinstance(mutated, list) else [mutated]
    return b"\n".join(map(dump_json, rows))


def _yaml(random: Random, seed: bytes) -> bytes:
    """Return YAML in flow style: JSON is YAML, and is written 20 times as fast."""
    import yaml

    tree = yaml.load(seed, Loader=yaml.CBaseLoader if random.random() < 0.1 else yaml.CSafeLoader)
    content = json.dumps(mutate_tree(random, tree), default=str, ensure_ascii=random.random() < 0.5)
    return content.encode("utf-8", "surrogatepass")


def _csv(random: Random, seed: bytes) -> bytes:
    rows = [line.split(",") for line in seed.decode().splitlines()]
    mutated = mutate_tree(random, rows)
    rows = mutated if isinstance(mutated, list) else [mutated]
    texts = (",".join(map(_cell, row)) if isinstance(row, list) else _cell(row) for row in rows)
    return "\n".join(texts).encode("utf-8", "surrogatepass")


def _cell(value: Any) -> str:
    if isinstance(value, int) and value >= HUGE:
        return "9" * 400
    text = value if isinstance(value, str) else str(value)
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


STRUCTURES: dict[str, Callable[[Random, bytes], bytes]] = {
    "json": _json,
    "json lines": _json_lines,
    "yaml": _yaml,
    "csv": _csv,
}
