"""Ranked plans: from a question (workload, traffic or work, constraints) to hardware, layout, time and money.

In comes a ``Question``. Out comes an ``Answer``: plans, best first, each with its speeds, power and price, and
what is to be said of them. Nothing that a rule of legality blocks is among them, except where one hardware
and one number of devices were asked for: that plan is always answered, with the reason why it can't be.
"""

from __future__ import annotations

from gpufleet.sizing.plans.document import document, schema
from gpufleet.sizing.plans.options import Asked, question
from gpufleet.sizing.plans.report import report
from gpufleet.sizing.plans.request import RANKS, Question
from gpufleet.sizing.plans.result import Answer, Plan
from gpufleet.sizing.plans.search import plan

__all__ = ["RANKS", "Answer", "Asked", "Plan", "Question", "document", "plan", "question", "report", "schema"]
