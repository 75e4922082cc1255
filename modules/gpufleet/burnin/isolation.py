"""Find the slow, dead and flapping nodes and links of a large cluster with few group tests.

All pairs of 232 nodes are 26,796 sessions. Here, each group of nodes (a rack, or about √N nodes) is one test: a ring,
in which each node meets two partners, so that a bad node spoils both of its pairs. Then:

1. screen: all groups at once;
2. repeat: the pairs that were bad alone are measured again in one test, because noise is not bad twice;
3. confirm: a node that was bad with two partners, or at an end of a pair that was bad twice, meets nodes that were
   good with everybody, until two sessions are bad or enough are good;
4. between: rings over one good node of each group, in an order in which every two groups meet (Walecki's
   decomposition of a complete graph into rings). It is the second grouping: each good node meets two more partners;
5. link: a pair of two groups that was bad is compared with another pair of the same groups.

A test is one launch of one group; its pairs run one after the other where they share a node. The plan is a pure
function of the results so far, so an interrupted run continues where its results end. What is missed: a fault of a
single pair that is in no ring, and a link between groups that no ring had; the report counts both.
`tests/burnin/test_isolation.py` measures tests and misses on simulated clusters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice, pairwise
from math import ceil

from gpufleet.burnin.isolation_session import Purpose, Session, describe_spreads, judge_sessions, list_rates
from gpufleet.burnin.mesh import FAIL_DROP, RATE_KINDS, PairMeasurement
from gpufleet.burnin.pair_rates import Pair, compare_rates

Results = Mapping[str, Sequence[PairMeasurement]]

# A group is a rack of at most so many times √N nodes; larger ones are divided. Two nodes have only one pair.
LARGEST_GROUP_SHARE, SMALLEST_GROUP = 2, 3
# A suspect is named at the second bad session with good partners. It is cleared when the first four are good, or
# when six had at most one bad: a flapping link is good now and then, a burst of noise is not bad twice.
# A pair is named at the third bad session, if both of its ends were cleared.
BAD_TO_NAME, BAD_TO_NAME_PAIR, GOOD_TO_CLEAR, MOST_SESSIONS = 2, 3, 4, 6
# So many sessions at most look for partners where most nodes are bad; GOOD_TO_CLEAR if no node had a good one so far.
MOST_EXPLORED = 12
# A node that is slow by less than FAIL_DROP is so in nearly all sessions; one that is now and then is noise.
BAD_TO_NAME_SLIGHT, STEADY_SHARE = 4, 0.75
CONFIRM_PARTNERS = 2
# So few nodes are one group, of which all pairs are measured.
FEW_NODES = 8
# A group has a bad link of its own if this share of its sessions is bad, with this share of the other groups.
UPLINK_SHARE = 0.6


@dataclass(frozen=True)
class GroupTest:
    """One launch: a group of nodes, and the pairs of it that are measured."""

    name: str
    purpose: Purpose
    members: tuple[str, ...]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Finding:
    """A node, pair or link that is bad, and the evidence.

    ``drop`` is 1 if sessions failed; ``seen_at`` are the nodes at which a bad link was seen.
    """

    names: tuple[str, ...]
    evidence: str
    drop: float
    seen_at: tuple[str, ...] = ()


@dataclass(frozen=True)
class IsolationReport:
    """What was found; ``links`` are between groups (their nodes are in ``groups``), ``cleared`` were suspects.

    ``unclear`` are nodes that no good node could test; ``notes`` say what the rates could not show.
    """

    groups: Mapping[str, tuple[str, ...]]
    nodes: tuple[Finding, ...]
    pairs: tuple[Finding, ...]
    links: tuple[Finding, ...]
    cleared: tuple[str, ...]
    tests: int
    sessions: int
    links_measured: int
    links_total: int
    unclear: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def build_groups(domains: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the groups to screen: the domain of each node, divided if large; nodes of tiny domains share groups."""
    size = max(SMALLEST_GROUP, ceil(len(domains) ** 0.5))
    by_domain: dict[str, list[str]] = defaultdict(list)
    for name in sorted(domains):
        by_domain[domains[name]].append(name)
    tiny = [d for d, names in by_domain.items() if len(names) < SMALLEST_GROUP]
    rest = [name for domain in tiny for name in by_domain.pop(domain)]
    if rest and len(rest) < SMALLEST_GROUP and by_domain:
        smallest = min(by_domain, key=lambda domain: (len(by_domain[domain]), domain))
        by_domain[smallest] += rest
        rest = []
    if rest:
        by_domain["the other nodes"] = rest
    groups = {}
    for domain, names in sorted(by_domain.items()):
        largest = LARGEST_GROUP_SHARE * size if len(by_domain) > 1 else size
        count = 1 if len(names) <= largest else round(len(names) / size)
        for at in range(count):
            part = names[at * len(names) // count : (at + 1) * len(names) // count]
            groups[domain if count == 1 else f"{domain} part {at + 1}"] = tuple(part)
    return groups


def build_ring(members: Sequence[str]) -> tuple[Pair, ...]:
    """Return the pairs of neighbours."""
    if len(members) < SMALLEST_GROUP:
        return tuple(pairwise(members))
    return tuple(zip(members, [*members[1:], members[0]], strict=True))


def build_orders(count: int) -> list[list[int]]:
    """Return rings of so many numbers in which every two meet at least once (Walecki's zigzags)."""
    even = count - count % 2
    orders = []
    for start in range(max(1, even // 2)):
        zigzag = [(start + (step + 1) // 2 * (1 if step % 2 else -1)) % even for step in range(even)]
        orders.append([*zigzag, *([count - 1] if count % 2 else [])])
    return orders if count > 1 else [[0] * count]


def color_pairs(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Return rounds of the pairs in which each node has at most one partner."""
    rounds: list[tuple[set[str], list[Pair]]] = []
    for pair in pairs:
        free = next((entry for entry in rounds if not entry[0] & set(pair)), None)
        if free is None:
            free = (set(), [])
            rounds.append(free)
        free[0].update(pair)
        free[1].append(pair)
    return [found for _, found in rounds]


def advance_isolation(
    domains: Mapping[str, str], results: Results, *, most_between: int = 4
) -> list[GroupTest] | IsolationReport:
    """Return the tests to run next, or the report if there are none; ``results`` are of all tests so far by name."""
    steps = Isolation(domains, most_between).run()
    tests = next(steps)
    while all(test.name in results for test in tests):
        try:
            tests = steps.send({test.name: results[test.name] for test in tests})
        except StopIteration as end:
            report: IsolationReport = end.value
            return report
    return [test for test in tests if test.name not in results]


Steps = Generator[list[GroupTest], Results, None]


@dataclass
class Isolation:
    """One run of the plan. A generator takes the results of the tests that it gave last."""

    domains: Mapping[str, str]
    most_between: int = 4
    groups: dict[str, tuple[str, ...]] = field(init=False)
    measured: list[tuple[Purpose, PairMeasurement]] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    nodes: dict[str, Finding] = field(default_factory=dict)
    pairs: dict[frozenset[str], Finding] = field(default_factory=dict)
    links: dict[frozenset[str], Finding] = field(default_factory=dict)
    cleared: dict[str, int] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)
    repeated: Counter[frozenset[str]] = field(default_factory=Counter)
    tests: int = 0

    def __post_init__(self) -> None:
        few = len(self.domains) <= FEW_NODES
        self.groups = {"all nodes": tuple(sorted(self.domains))} if few else build_groups(self.domains)
        self.group_of = {name: group for group, members in self.groups.items() for name in members}

    def run(self) -> Generator[list[GroupTest], Results, IsolationReport]:
        """Give tests and take their results, until all is known."""
        screens = [
            self.new_test("screen", members, self.list_screened_pairs(members), group)
            for group, members in self.groups.items()
        ]
        yield from self.measure(screens)
        if len(self.domains) <= FEW_NODES:
            self.find_slow_among_few()
        yield from self.find_causes()
        between = self.list_between_tests()
        for at in range(0, len(between), self.most_between):
            yield from self.measure(between[at : at + self.most_between])
        self.find_bad_uplinks()
        yield from self.find_bad_links()
        yield from self.find_causes()
        self.merge_pairs_of_links()
        self.withdraw_usual_rates()
        met = {self.link_of(session.ends) for session in self.sessions if self.is_between(session.ends)}
        return IsolationReport(
            self.groups,
            tuple(self.nodes[name] for name in sorted(self.nodes)),
            tuple(found for found in self.pairs.values() if not self.is_explained(found.names)),
            tuple(self.links.values()),
            tuple(sorted(set(self.cleared) - set(self.nodes) - self.unclear)),
            self.tests,
            len(self.measured),
            len(met),
            len(self.groups) * (len(self.groups) - 1) // 2,
            tuple(sorted(self.unclear - set(self.nodes))),
            describe_spreads(self.measured, self.is_between),
        )

    def list_screened_pairs(self, members: Sequence[str]) -> tuple[Pair, ...]:
        """Return the pairs of a group's first test: a ring, of few nodes all pairs."""
        return tuple(combinations(members, 2)) if len(self.domains) <= FEW_NODES else build_ring(members)

    def find_slow_among_few(self) -> None:
        """Name slow nodes where one bad node spoils so many pairs that no single rate stands out."""
        for number, kind in enumerate(RATE_KINDS):
            rates: dict[Pair, float] = {}
            for _, pair in self.measured:
                found = [] if pair.error else list_rates(pair)[number]
                rates |= zip((pair.ends, pair.ends[::-1]), found, strict=False)
            compared = compare_rates(rates)
            for end in (*compared.senders, *compared.receivers):
                text = (
                    f"{end.measured:.4g} {kind.unit} with most partners, its peers {end.expected:.4g}"
                    f" ({end.drop:.0%} less)"
                )
                self.nodes.setdefault(end.name, Finding((end.name,), text, end.drop))

    def new_test(
        self, purpose: Purpose, members: Sequence[str], pairs: Sequence[Pair], label: str = ""
    ) -> GroupTest:
        """Return a test with a name of its own."""
        self.tests += 1
        return GroupTest(
            f"{self.tests} {purpose} {label or ' '.join(members)}", purpose, tuple(members), tuple(pairs)
        )

    def measure(self, tests: list[GroupTest]) -> Steps:
        """Run tests at the same time; judge all sessions again, for there is more to compare them with."""
        if not tests:
            return
        results = yield tests
        for test in tests:
            asked = {frozenset(pair) for pair in test.pairs}
            found = {
                frozenset(pair.ends): pair for pair in results[test.name] if frozenset(pair.ends) in asked
            }
            for pair in test.pairs:
                pair_measured = found.get(frozenset(pair)) or PairMeasurement(*pair, error="no result")
                self.measured.append((test.purpose, pair_measured))
        self.sessions = judge_sessions(self.measured, self.is_between)

    def is_between(self, ends: Pair) -> bool:
        """Return whether the ends are of two groups."""
        return self.group_of[ends[0]] != self.group_of[ends[1]]

    def link_of(self, ends: Pair) -> frozenset[str]:
        """Return the groups of a pair."""
        return frozenset(self.group_of[end] for end in ends)

    def list_unexplained(self) -> list[Session]:
        """Return the bad sessions that no named node, pair or link explains."""
        return [
            session
            for session in self.sessions
            if session.problem
            and frozenset(session.ends) not in self.pairs
            and not self.is_explained(session.ends)
        ]

    def is_explained(self, ends: Sequence[str]) -> bool:
        """Return whether an end is named, or the groups of the ends have a bad link."""
        link = frozenset(self.group_of[end] for end in ends)
        has_bad_link = link in self.links or any(frozenset((group,)) in self.links for group in link)
        return bool(set(ends) & set(self.nodes)) or (len(link) > 1 and has_bad_link)

    def find_causes(self) -> Steps:
        """Repeat and confirm until each bad session has a cause, or was noise."""
        while True:
            unexplained = self.list_unexplained()
            partners: dict[str, set[str]] = defaultdict(set)
            for session in self.sessions:
                if session.problem and not self.is_explained(session.ends):
                    for end in session.ends:
                        partners[end].add(session.partner_of(end))
            suspects = {
                name for name, others in partners.items() if len(others) > max(1, self.cleared.get(name, 0))
            }
            counts = Counter(frozenset(session.ends) for session in unexplained)
            suspects |= {
                end for pair, count in counts.items() if count > 1 for end in pair if end not in self.cleared
            }
            suspects |= {  # a session that failed is no noise, even if it did not fail again
                end
                for session in unexplained
                if session.drop == 1 and self.repeated[frozenset(session.ends)]
                for end in session.ends
                if end not in self.cleared
            }
            if suspects:
                yield from self.confirm(sorted(suspects), {name: len(partners[name]) for name in suspects})
                continue
            proven = self.list_proven()
            for pair, count in counts.items():
                if count >= BAD_TO_NAME_PAIR and pair <= proven:
                    bad = [session for session in unexplained if frozenset(session.ends) == pair]
                    self.pairs[pair] = Finding(
                        bad[0].ends,
                        f"{bad[-1].problem}, {count} times; both nodes are good with others",
                        max(session.drop for session in bad),
                    )
            lone = [
                pair
                for pair, count in counts.items()
                if pair not in self.pairs and self.repeated[pair] < count and not pair & self.unclear
            ]
            if not lone:
                return
            taken: Counter[str] = Counter()
            chains = [
                self.build_chain(next(s.ends for s in unexplained if frozenset(s.ends) == pair), taken)
                for pair in lone
            ]
            members = list(dict.fromkeys(name for chain in chains for name in chain))
            pairs = list(dict.fromkeys(pair for chain in chains for pair in pairwise(chain)))
            yield from self.measure([self.new_test("repeat", members, pairs, f"{len(lone)} pairs")])

    def build_chain(self, ends: Pair, taken: Counter[str]) -> list[str]:
        """Return a pair that was bad, to be repeated; the first time, both ends meet a good node too."""
        chain = list(ends)
        if not self.repeated[frozenset(ends)]:
            used = {
                session.partner_of(end) for session in self.sessions for end in ends if end in session.ends
            }
            before, after = (self.list_good_partners(end, used | set(ends), set(), taken)[:1] for end in ends)
            taken.update([*before, *after])
            chain = [*before, *ends, *(name for name in after if name not in before)]
        self.repeated[frozenset(ends)] += 1
        return chain

    def confirm(self, suspects: list[str], seen: Mapping[str, int]) -> Steps:
        """Let suspects meet good nodes; name them or clear them. One that met none is neither."""
        evidence: dict[str, list[Session]] = {name: [] for name in suspects}
        left = list(suspects)
        while left:
            taken: Counter[str] = Counter()
            tests, owners = [], []
            for name in left:
                used = {session.partner_of(name) for session in evidence[name]}
                good = self.list_good_partners(name, used, set(suspects), taken)
                if not good:
                    continue
                taken.update(good)
                tests.append(
                    self.new_test("confirm", [good[0], name, *good[1:]], [(name, one) for one in good])
                )
                owners.append(name)
            before = len(self.measured)
            yield from self.measure(tests)
            fresh = iter(self.sessions[before:])
            for name, test in zip(owners, tests, strict=True):
                evidence[name] += islice(fresh, len(test.pairs))
            proven = self.list_proven()
            left = [
                name
                for name in owners
                if not is_decided(select_telling(name, evidence[name], proven))
                and len(evidence[name]) < (MOST_EXPLORED if proven else GOOD_TO_CLEAR)
            ]
        proven = self.list_proven()
        for name in suspects:
            telling = select_telling(name, evidence[name], proven)
            every = [s for s in self.sessions if name in s.ends]
            is_named = is_bad(telling) and is_bad(select_telling(name, every, proven))
            if is_named:
                self.nodes[name] = describe_node(name, telling, self.sessions)
                continue
            if any(not session.problem for session in telling):
                self.cleared[name] = seen[name]
                self.unclear.discard(name)
            else:
                self.cleared[name] = len(self.domains)
                self.unclear.add(name)

    def list_proven(self) -> set[str]:
        """Return nodes that had a good session: a bad session between two others says nothing of either."""
        return {end for session in self.sessions if not session.problem for end in session.ends} - set(
            self.nodes
        )

    def list_good_partners(
        self, name: str, used: set[str], suspects: set[str], taken: Mapping[str, int]
    ) -> list[str]:
        """Return nodes that were good with everybody, those of the same group first, and the least busy."""
        bad = {end for session in self.sessions if session.problem for end in session.ends}
        met = {end for session in self.sessions for end in session.ends} - used - set(self.nodes) - {name}
        proven = self.list_proven()
        own = self.group_of[name]
        good = met - bad - suspects
        if (
            len(good) < CONFIRM_PARTNERS
        ):  # everybody met a bad node: those that were good with somebody will do
            good = (met & proven) - suspects or met & proven
        if not good:  # no node was good yet: a partner that it has not met
            good = met - {session.partner_of(name) for session in self.sessions if name in session.ends}
        ordered = sorted(good, key=lambda one: (self.group_of[one] != own, taken.get(one, 0), one))
        # Of other groups one each: two partners over the same bad link would spoil a good node. No link explains that
        # a node is bad inside its own group too.
        inside = [s for s in self.sessions if name in s.ends and not self.is_between(s.ends)]
        is_good_inside = any(not session.problem for session in inside) or not inside
        met_groups = {self.group_of[one] for one in used} - {own}
        partners: list[str] = []
        for one in ordered:
            group = self.group_of[one]
            if group == own or group not in met_groups or not is_good_inside:
                partners.append(one)
                met_groups.add(group)
        return partners[:CONFIRM_PARTNERS]

    def list_between_tests(self) -> list[GroupTest]:
        """Return rings over one good node of each group; together they have each good node."""
        good = {
            group: [name for name in members if name not in self.nodes]
            for group, members in self.groups.items()
        }
        good = {group: members for group, members in good.items() if members}
        if len(good) < 2:  # noqa: PLR2004 - two groups have one link
            return []
        names, orders = list(good), build_orders(len(good))
        count = max(len(orders), *(len(members) for members in good.values()))
        tests = []
        for row in range(count):
            order = [names[at] for at in orders[row % len(orders)]]
            members = [good[group][row % len(good[group])] for group in order]
            tests.append(self.new_test("between", members, build_ring(members), f"ring {row + 1}"))
        return tests

    def find_bad_uplinks(self) -> None:
        """Name groups of which several nodes are bad with nodes of most other groups."""
        proven = self.list_proven()
        for group in self.groups:
            between = [
                session
                for session in self.sessions
                if session.purpose == "between"
                and group in self.link_of(session.ends)
                and set(session.ends) <= proven
            ]
            bad = [session for session in between if session.problem]
            own = {end for session in bad for end in session.ends if self.group_of[end] == group}
            met, spoiled = (Counter(self.link_of(s.ends) for s in found) for found in (between, bad))
            links = [link for link in spoiled if spoiled[link] >= UPLINK_SHARE * met[link]]
            if len(own) > 1 < len(links) and len(links) >= UPLINK_SHARE * len(met):
                self.links[frozenset((group,))] = Finding(
                    (group,),
                    f"{len(bad)} of {len(between)} pairs with other groups are bad, those inside are good:"
                    f" {bad[0].ends[0]} with {bad[0].ends[1]} {bad[0].problem}",
                    max(session.drop for session in bad),
                    list_ends(bad),
                )

    def find_bad_links(self) -> Steps:
        """Measure bad pairs of two groups again, and another pair of the same groups: the link, or only this pair."""
        bad = [s for s in self.list_unexplained() if s.purpose == "between"]
        spoiled: dict[str, set[frozenset[str]]] = defaultdict(set)
        for session in bad:
            for end in session.ends:
                spoiled[end].add(self.link_of(session.ends))
        by_link: dict[frozenset[str], list[Session]] = defaultdict(list)
        for session in bad:
            if max(len(spoiled[end]) for end in session.ends) == 1:  # else a node is the suspect
                by_link[self.link_of(session.ends)].append(session)
        tests = []
        for sessions in by_link.values():
            first = sessions[0].ends
            pairs = [first] if not self.repeated[frozenset(first)] else []
            self.repeated[frozenset(first)] += 1
            used = {end for session in sessions for end in session.ends}
            other = [self.find_other(end, used) for end in first]
            if other[0] and other[1]:
                pairs.append((other[0], other[1]))
            tests += [self.new_test("link", pair, [pair]) for pair in pairs]
        yield from self.measure(tests)
        proven = self.list_proven()
        for link in by_link:
            all_of_it = [
                session
                for session in self.sessions
                if self.is_between(session.ends)
                and self.link_of(session.ends) == link
                and set(session.ends) <= proven
            ]
            worst = [session for session in all_of_it if session.problem]
            again = [session for session in all_of_it if session.purpose != "between"]
            if (
                len({frozenset(session.ends) for session in worst}) > 1
                and 2 * len(worst) > len(all_of_it)
                and 2 * sum(bool(session.problem) for session in again) > len(again)
            ):
                self.links[link] = describe_link(link, worst, len(all_of_it))

    def merge_pairs_of_links(self) -> None:
        """Name a link of which two pairs were named."""
        by_link: dict[frozenset[str], set[frozenset[str]]] = defaultdict(set)
        for pair, found in self.pairs.items():
            if self.is_between((found.names[0], found.names[1])) and not self.is_explained(found.names):
                by_link[self.link_of((found.names[0], found.names[1]))].add(pair)
        for link, pairs in by_link.items():
            if len(pairs) > 1:
                bad = [s for s in self.sessions if s.problem and frozenset(s.ends) in pairs]
                if len(bad) < BAD_TO_NAME_PAIR:  # later sessions showed that these rates are usual
                    continue
                measured = sum(
                    self.is_between(session.ends) and self.link_of(session.ends) == link
                    for session in self.sessions
                )
                self.links[link] = describe_link(link, bad, measured)

    def withdraw_usual_rates(self) -> None:
        """Take back nodes and pairs of which all sessions together, compared with the whole run, are not bad."""
        if len(self.domains) <= FEW_NODES:
            return
        proven = {end for session in self.sessions if not session.problem for end in session.ends}
        for name in list(self.nodes):
            if not is_bad(select_telling(name, [s for s in self.sessions if name in s.ends], proven)):
                del self.nodes[name]
                self.cleared.setdefault(name, 1)
        counts = Counter(frozenset(session.ends) for session in self.sessions if session.problem)
        self.pairs = {pair: found for pair, found in self.pairs.items() if counts[pair] >= BAD_TO_NAME_PAIR}

    def find_other(self, name: str, used: set[str]) -> str:
        """Return another good node of the same group, empty if there is none."""
        return next(
            (
                one
                for one in self.groups[self.group_of[name]]
                if one not in used and one not in self.nodes and one != name
            ),
            "",
        )


def list_ends(sessions: Iterable[Session]) -> tuple[str, ...]:
    """Return the nodes of sessions."""
    return tuple(sorted({end for session in sessions for end in session.ends}))


def select_telling(name: str, sessions: Sequence[Session], proven: set[str]) -> list[Session]:
    """Return the sessions that say something of a node: good ones, and bad ones with a node that was good once."""
    return [s for s in sessions if not s.problem or s.partner_of(name) in proven]


def is_bad(sessions: Sequence[Session]) -> bool:
    """Return whether the sessions with good partners name a suspect."""
    drops = [session.drop for session in sessions if session.problem]
    if len(drops) < BAD_TO_NAME:
        return False
    is_steady = len(drops) >= max(BAD_TO_NAME_SLIGHT, STEADY_SHARE * len(sessions))
    return sorted(drops)[-BAD_TO_NAME] >= FAIL_DROP or is_steady


def is_decided(sessions: Sequence[Session]) -> bool:
    """Return whether the sessions with good partners name or clear a suspect."""
    bad = sum(bool(session.problem) for session in sessions)
    return is_bad(sessions) or (bad == 0 and len(sessions) >= GOOD_TO_CLEAR) or len(sessions) >= MOST_SESSIONS


def describe_node(name: str, confirmed: Sequence[Session], sessions: Sequence[Session]) -> Finding:
    """Return the finding of a node: what was measured with good partners, and how often."""
    bad = [session for session in confirmed if session.problem]
    others = [s for s in sessions if name in s.ends and s.purpose != "confirm"]
    text = ", ".join(f"with {session.partner_of(name)} {session.problem}" for session in bad[:2])
    counts = (
        f"bad in {len(bad)} of {len(confirmed)} sessions with good nodes"
        f" and in {sum(bool(s.problem) for s in others)} of {len(others)} others"
    )
    return Finding((name,), f"{text}; {counts}", max(session.drop for session in bad))


def describe_link(link: Iterable[str], bad: Sequence[Session], measured: int) -> Finding:
    """Return the finding of a link between two groups."""
    first = bad[0]
    return Finding(
        tuple(sorted(link)),
        f"{len(bad)} of {measured} sessions are bad, of nodes that are good with others:"
        f" {first.ends[0]} with {first.ends[1]} {first.problem}",
        max(session.drop for session in bad),
        list_ends(bad),
    )
