"""Test host patterns against Ansible's own inventory: the same hosts, or a refusal."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import dataclass

import pytest
import yaml
from ansible import constants
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager, split_host_pattern
from ansible.parsing.dataloader import DataLoader
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.errors import CheckFailed, InputError
from gpufleet.remote.host_pattern import (
    LONGEST_ARGUMENT,
    MAX_NAMES,
    build_alternation,
    parse_host_pattern,
    parse_host_patterns,
)

EXAMPLES = 5000
BLADES = [f"blade{number:02}" for number in range(1, 13)]
RACKS = {rack: [f"rack{rack}-blade{slot:02}" for slot in range(1, 4)] for rack in (1, 2)}
GROUPS = {
    "new_blades": BLADES[:5],
    "empty": [],
    "rack_r1": RACKS[1],
    "rack_r2": RACKS[2],
    "pool_a": [*BLADES[3:8], "gpu.example"],
    "22": ["bench1"],
    "all_else": ["bench1", "bench2", "bench10", "gpu.example", "fe80::1", "web"],
}
HOSTS = {name for names in GROUPS.values() for name in names} | {*BLADES}


@pytest.fixture(scope="module")
def inventory(tmp_path_factory):
    path = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    groups = {name: {"hosts": dict.fromkeys(names)} for name, names in GROUPS.items()}
    path.write_text(yaml.safe_dump({"all": {"hosts": dict.fromkeys(sorted(HOSTS)), "children": groups}}))
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(constants, "HOST_PATTERN_MISMATCH", "ignore")
    manager = InventoryManager(loader=DataLoader(), sources=[str(path)])
    assert {*manager.hosts} == HOSTS
    yield manager
    monkeypatch.undo()


def select_with_limit(inventory, limit):
    """Return the names of the hosts that a run with ``--limit`` has; None if Ansible refuses the limit."""
    inventory.clear_caches()
    try:
        inventory.subset(limit)
        return {host.name for host in inventory.get_hosts("all")}
    except (AnsibleError, IndexError):  # an operator without a name is an IndexError
        return None
    finally:
        inventory.subset(None)


@dataclass(frozen=True)
class Range:
    """A folded range that the generator made: its text, and the names that it must mean."""

    text: str
    names: tuple[str, ...]


@st.composite
def ranges(draw):
    prefix, width, highest = draw(
        st.sampled_from(
            [("blade", 2, 13), ("bench", 1, 11), ("rack_r", 1, 3), ("nosuch", 1, 3), ("blade0", 1, 9)]
        )
    )
    if draw(st.integers(0, 4)) == 0:
        slots = draw(st.integers(1, 3))
        names = [f"rack{rack}-blade{slot:02}" for rack in (1, 2) for slot in range(1, slots + 1)]
        return Range(f"rack[1-2]-blade[01-{slots:02}]", tuple(names))
    numbers, parts = [], []
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(1, highest))
        last = draw(st.integers(first, min(highest, 10**width - 1))) if first < 10**width else first
        numbers += range(first, last + 1)
        single = first == last and draw(st.booleans())
        parts.append(f"{first:0{width}}" if single else f"{first:0{width}}-{last:0{width}}")
    if parts == [parts[0]] and "-" not in parts[0]:
        parts = [f"{parts[0]}-{parts[0]}"]
    return Range(f"{prefix}[{','.join(parts)}]", tuple(f"{prefix}{number:0{width}}" for number in numbers))


NAMES = st.sampled_from(
    [*BLADES[:4], *GROUPS, "all", "bench1", "gpu.example", "blde01", "fe80::1", "web:22", "ungrouped"]
)
SUBSCRIPTS = st.builds(
    "{}[{}]".format,
    st.sampled_from(["new_blades", "pool_a", "blade*", "empty", "rack_r1", "nosuch"]),
    st.sampled_from(["0", "-1", "1:3", "0:", "2", "9", "3:1", "1-"]),
)
EXPRESSIONS = st.sampled_from(
    [
        "~blade0[1-3]",
        "~(blade|bench)1",
        r"~.*-blade01$",
        "~blade[01-12]",
        r"~blade\d{1,2}",
        "~a(?:b|.)",
        "~[",
        "~x[1,2]",
    ]
)
WILDCARDS = st.sampled_from(
    [
        "blade*",
        "bl?de01",
        "blade0[1-3]*",
        "blade[!0]*",
        "blade1[012]",
        "rack[1-2]-*",
        "blade[0-1][1-3]*",
        "*[0-9]",
    ]
)
DEBRIS = st.one_of(
    st.sampled_from(
        ["", "@file", "[", "]", "blade[01-", "blade[a,b]", "a b", ":", "!", "~", "[fe80::1]:22", "22"]
    ),
    st.text("ab01[]-,:!&~*? .", max_size=8),
)
WRITTEN = st.one_of(ranges(), ranges(), NAMES, NAMES, st.one_of(SUBSCRIPTS, EXPRESSIONS, WILDCARDS))
OPERATORS = st.sampled_from(["", "", "!", "&"])


@st.composite
def patterns(draw):
    """Return the pieces of a pattern; one in four has mixed separators, doubled operators, or debris in it."""
    separators, operators, texts = draw(st.sampled_from([[","], [":"]])), OPERATORS, WRITTEN
    if draw(st.integers(0, 3)) == 0:
        separators = [",", ":", ", ", " ", ",,"]
        operators, texts = st.sampled_from(["", "!", "&", "!!", "& "]), st.one_of(WRITTEN, DEBRIS)
    pieces = []
    for number in range(draw(st.integers(1, 4))):
        pieces += [draw(st.sampled_from(separators))] if number else []
        pieces += [draw(operators), draw(texts)]
    return pieces


def select_by_terms(inventory, pieces):
    """Return the hosts of a pattern with ranges; None if it must be refused.

    Ansible's own function splits the pattern, in which each range is a word without special characters.
    """
    words = {f"RANGE{number}RANGE": piece for number, piece in enumerate(pieces) if isinstance(piece, Range)}
    masked = "".join(
        f"RANGE{n}RANGE" if isinstance(piece, Range) else piece for n, piece in enumerate(pieces)
    )
    hosts = {"": [], "&": [], "!": []}
    try:
        for raw in split_host_pattern(masked):
            operator, text = (raw[0], raw[1:]) if raw[0] in "!&" else ("", raw)
            if text in words:
                matches = [inventory._evaluate_patterns([name]) for name in words[text].names]
            elif "RANGE" in text:
                return None  # the range is a part of something else
            else:
                matches = [
                    inventory._match_one_pattern(raw) if operator else inventory._evaluate_patterns([text])
                ]
            hosts[operator].append({host.name for hosts in matches for host in hosts})
    except (AnsibleError, IndexError):
        return None
    included = hosts[""] or [HOSTS]
    return set().union(*included).intersection(*hosts["&"]).difference(*hosts["!"])


def test_random_patterns_select_what_ansible_selects_or_are_refused(inventory):
    outcomes = Counter()

    @settings(max_examples=EXAMPLES, deadline=None, derandomize=True)
    @given(patterns())
    def check(pieces):
        text = "".join(piece.text if isinstance(piece, Range) else piece for piece in pieces)
        has_range = any(isinstance(piece, Range) for piece in pieces)
        expected = select_by_terms(inventory, pieces) if has_range else select_with_limit(inventory, text)
        try:
            limit = parse_host_pattern(text).ansible_limit
        except InputError:
            outcomes["refused", has_range] += 1
            return
        selected = select_with_limit(inventory, limit)
        assert selected == expected, (text, limit)
        assert has_range or limit == text
        outcomes["refused by Ansible" if selected is None else "equal", has_range] += 1

    check()
    assert sum(outcomes.values()) >= EXAMPLES
    assert outcomes["equal", True] > EXAMPLES / 4, outcomes
    assert outcomes["equal", True] + outcomes["equal", False] > EXAMPLES / 2, outcomes


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("blade[01-03]:!blade02", {"blade01", "blade03"}),
        ("blade[01-03],!blade02", {"blade01", "blade03"}),
        ("new_blades:&blade[01-03]", {"blade01", "blade02", "blade03"}),
        ("new_blades:!blade[01-02]", {"blade03", "blade04", "blade05"}),
        ("new_blades:!blade[01-02,04]", {"blade03", "blade05"}),
        ("new_blades[0]", {"blade01"}),
        ("new_blades[-1]:blade[07-08]", {"blade05", "blade07", "blade08"}),
        ("new_blades[1:2]:&blade[02-12]", {"blade02", "blade03"}),
        ("~blade0[1-3]", {"blade01", "blade02", "blade03"}),
        ("~blade0[1-3]:!blade[02-02]", {"blade01", "blade03"}),
        ("rack[1-2]-blade[01-02]:!rack2-blade01", {"rack1-blade01", "rack1-blade02", "rack2-blade02"}),
        ("rack_r[1-2]:&rack[1-2]-blade[03-03]", {"rack1-blade03", "rack2-blade03"}),
        ("rack[1-2]-*:!rack_r[2-2]", {*RACKS[1]}),
        ("!blade[01-12]:!all_else:!rack_r[1-2]", set()),
        ("bench[1-2,10]", {"bench1", "bench2", "bench10"}),
    ],
)
def test_operators_apply_to_every_name_of_a_range(inventory, text, hosts):
    assert select_with_limit(inventory, parse_host_pattern(text).ansible_limit) == hosts


@pytest.mark.parametrize(
    "text",
    [
        "new_nodes",
        "new_blades[0]",
        "blades[0:2]",
        "~blade[01-03]",
        "a:!b:&c",
        "rack[1-3]*",
        "!a",
        r"~b\d{1,2}",
    ],
)
def test_pattern_without_a_range_reaches_ansible_as_it_is(text):
    assert parse_host_pattern(text).ansible_limit == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--limit: names no host; name hosts or groups; all means every host"),
        (" , ", "--limit: names no host; "),
        ("new_blades:!", "--limit: ! has no name; write a name after the operator"),
        (
            "@hosts.txt",
            '--limit: @hosts.txt is a file of names; write the names: "$(paste -sd, FILE)"',
        ),
        ("--tags=x", "--limit: --tags=x begins with a dash; write a name"),
        ("blade01,-e", "--limit: -e begins with a dash; "),
        ("a,b:!blade[01-02]", "--limit: b:!blade[01-02] has a colon, and the pattern has commas; "),
        (
            "blade[01-03][0]",
            "--limit: blade[01-03][0] combines a range with something else; write ranges like blade[",
        ),
        ("blade[01-12]*", "--limit: blade[01-12]* combines a range with something else; "),
        ("blade[01-03]!blade02", "--limit: blade[01-03]!blade02 combines a range with something else; "),
        (
            "blade[01-",
            "--limit: blade[01- has a bracket without its pair; write ranges like blade[01-20], and",
        ),
        ("a,blade[1,x]", "--limit: blade[1 has a bracket without its pair; "),
        ("blade[3-1]", "--limit: 'blade[3-1]' is not a range of names; write a range like blade[01-20]"),
        ("blade[1-2]:22", "--limit: blade[1-2]:22 ends with a port; separate names with commas"),
        ("a:~x[1,2]", "--limit: a:~x[1,2] has a comma in a regular expression; "),
        ("~b:blade[1-2],c", "--limit: ~b:blade[1-2] has a colon, and the pattern has commas; "),
        ("a,b c", "--limit: b c has a blank; separate names with commas"),
    ],
)
def test_pattern_with_two_readings_is_refused(text, message):
    with pytest.raises(InputError) as excinfo:
        parse_host_pattern(text)
    assert str(excinfo.value).startswith(message)
    assert excinfo.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        "blade[0-9999999]",
        "b[1-3]x[1-999999]",
        "a[1-15000],b[1-15000]",
        "!a[1-15000]:b[1-15000]",
        "blade[1-999999999]",
    ],
)
def test_too_many_names_are_refused_before_they_are_expanded(text, monkeypatch):
    monkeypatch.setattr("gpufleet.remote.host_pattern.expand_name_range", None)
    with pytest.raises(InputError, match=f"expands to more than {MAX_NAMES:,} names; write a smaller range"):
        parse_host_pattern(text)


def test_several_patterns_have_together_no_more_names_than_one():
    with pytest.raises(InputError, match=r"NODE: .* expands to more than 20,000 names"):
        parse_host_patterns(["a[1-15000]", "b[1-15000]"])


def test_range_of_a_complete_fleet_fits_an_argument():
    limit = parse_host_pattern("all:!blade[00001-20000]").ansible_limit
    assert len(limit) < LONGEST_ARGUMENT
    expression = re.compile(limit.removeprefix("all,!~"))
    assert [number for number in range(30_000) if expression.match(f"blade{number:05}")] == [
        *range(1, 20_001)
    ]


def test_long_list_of_names_fits_an_argument():
    names = [f"production-train-{number}" for number in range(10_000)]
    pattern = parse_host_pattern(",".join(names))
    assert len(pattern.text) > LONGEST_ARGUMENT > len(pattern.ansible_limit)
    assert pattern.range_names == {*names}
    assert re.compile(pattern.ansible_limit[1:]).match("production-train-10000") is None


def test_pattern_that_no_program_can_take_is_refused():
    pattern = parse_host_pattern(",".join(f"{number}*" for number in range(30_000)))
    with pytest.raises(InputError, match="is longer than 131,071 bytes; name groups or ranges"):
        assert pattern.ansible_limit


def test_time_grows_with_the_length_of_a_pattern():
    count = 10_000

    def measure(size):
        text = ":".join(f"blade{number:05}" for number in range(size))
        ranges = ",".join(f"!b{number % 10}[01-02]" for number in range(size // 2))
        started = time.process_time()
        parse_host_pattern(text)
        parse_host_pattern(f"all,{ranges}")
        build_alternation(sorted(text.split(":")))
        return time.process_time() - started

    small, large = min(measure(count // 8) for _ in range(3)), min(measure(count) for _ in range(3))
    assert large < 30 * small  # 8 times the names; 64 times if it were quadratic


@given(st.lists(st.text("ab01.-", max_size=6), min_size=1, unique=True))
def test_expression_matches_its_names_only(names):
    expression = re.compile(rf"{build_alternation(sorted(names))}\Z")
    assert all(map(expression.match, names))
    others = {f"{name}0" for name in names} | {name[:-1] for name in names}
    assert not any(map(expression.match, others - {*names}))


def find_self(name):
    return {name}


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["blade[01-03]:!blade02"], {"blade01", "blade03"}),
        (["blade[01-03]", "!blade02"], {"blade01", "blade03"}),
        (["blade[01-03]", "&blade[02-09]", "x,y"], {"blade02", "blade03"}),
        (["r1/[1-2]"], {"r1/1", "r1/2"}),
    ],
)
def test_names_are_combined_without_an_inventory(texts, names):
    assert parse_host_patterns(texts).combine(find_self) == names


@pytest.mark.parametrize("text", ["~blade.*", "blade*", "new_blades[0]", "blade01,!b?"])
def test_what_needs_an_inventory_is_not_a_name(text):
    with pytest.raises(
        InputError, match=r"NODE: .* is not a name or a range of names; write names or ranges"
    ):
        parse_host_patterns([text]).combine(find_self)


def test_names_that_are_only_excluded_never_mean_all_others():
    with pytest.raises(InputError, match="NODE: !blade01 names no node to take"):
        parse_host_patterns(["!blade01"]).combine(find_self)


def test_no_name_left_is_a_negative_answer():
    with pytest.raises(CheckFailed, match="NODE: blade01,!blade01 leaves no node"):
        parse_host_patterns(["blade01", "!blade01"]).combine(find_self)
