"""A simulated cluster for the plan of group tests: nodes, racks, faults and noise.

Each session's rate varies by 1 % (normal, in logarithms), each node's own rate by 0.5 %, and one session in 300 loses
10 to 40 %. A slow node runs at 50 to 90 % in all its sessions, a dead node fails them all, a flapping node loses half
of the rate or fails in 80 % of them, each session for itself.
"""

from __future__ import annotations

import math
import random

from gpufleet.burnin.isolation import Isolation, IsolationReport
from gpufleet.burnin.mesh import PairMeasurement

SESSION_NOISE, NODE_NOISE, BURSTS = 0.01, 0.005, 1 / 300
FLAPS = 0.8
KINDS = ("slow", "dead", "flapping")


class SimulatedCluster:
    """Nodes in racks of so many, of which some are bad, and one link between two racks may be."""

    def __init__(self, count, seed, *, bad=0, bad_link=False, per_rack=None, kinds=KINDS):
        self.random = random.Random(seed)
        self.names = [f"node{number:04}" for number in range(count)]
        self.racks = {
            name: f"rack{at // per_rack:02}" if per_rack else "one" for at, name in enumerate(self.names)
        }
        self.own = {name: self.random.gauss(0, NODE_NOISE) for name in self.names}
        self.bad = {name: self.random.choice(kinds) for name in self.random.sample(self.names, bad)}
        self.slow = {name: self.random.uniform(0.5, 0.9) for name in self.bad}
        racks = sorted(set(self.racks.values()))
        self.bad_link = frozenset(self.random.sample(racks, 2)) if bad_link else frozenset()
        self.bad_pair = frozenset()
        self.tests = self.sessions = self.rounds = 0

    def measure(self, one, two):
        """Return one session."""
        self.sessions += 1
        factors = [1.0]
        for name in (one, two):
            kind = self.bad.get(name)
            is_down = kind == "flapping" and self.random.random() < FLAPS
            if kind == "dead" or (is_down and self.random.random() < 0.5):
                return PairMeasurement(one, two, error="connect: timed out")
            factors.append(self.slow[name] if kind == "slow" else 0.5 if is_down else 1.0)
        if self.bad_link == {self.racks[one], self.racks[two]} or {one, two} == self.bad_pair:
            factors.append(0.5)
        rates = []
        for _ in range(2):
            rate = 9400 * math.exp(self.random.gauss(0, SESSION_NOISE) + min(self.own[one], self.own[two]))
            rate *= self.random.uniform(0.6, 0.9) if self.random.random() < BURSTS / 2 else 1
            rates.append(rate * min(factors))
        return PairMeasurement(one, two, *rates, 0.0, 9000.0, 9000.0, 9000.0, 0.05)

    def isolate(self) -> IsolationReport:
        """Run the plan to its end."""
        steps = Isolation(self.racks).run()
        tests = next(steps)
        while True:
            self.rounds += 1
            self.tests += len(tests)
            results = {test.name: [self.measure(*pair) for pair in test.pairs] for test in tests}
            try:
                tests = steps.send(results)
            except StopIteration as end:
                return end.value
