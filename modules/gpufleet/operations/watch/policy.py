"""What the watch does at a site: `watch.yaml` next to `Pulumi.yaml`, checked as a whole (docs/watch.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from gpufleet.boundary import decode_yaml, make_printable, validate_with_pydantic
from gpufleet.burnin.threshold_lint import is_iso_date
from gpufleet.errors import InputError
from gpufleet.fleet.frozen_model import DateText
from gpufleet.operations.watch.rule import Action, Measure, WatchRule, load_watch_rules

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Argument = Annotated[str, Field(min_length=1, max_length=500)]
ExporterName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RuleChange(_Entry):
    """Another action or measure of a rule."""

    rule: Text
    action: Action
    measure: Measure | None = None
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=500)]
    by: Text
    date: DateText


class SiteExporter(_Entry):
    """An exporter of the site's own on nodes of some pools and racks; all nodes without them."""

    name: ExporterName
    port: Annotated[int, Field(gt=0, le=65535)]
    scheme: Literal["http", "https"] = "http"
    pools: tuple[Text, ...] = ()
    racks: tuple[Text, ...] = ()


class DrainHook(_Entry):
    """How jobs are kept from a node: Slurm, Kubernetes, or commands of the site's own.

    In a command `{node}` and `{reason}` are replaced. `state` prints `drained`, `in_use` or `foreign`, and what
    `drain` and `resume` did is read from it.
    """

    hook: Literal["slurm", "kubernetes", "command"]
    seconds: Annotated[float, Field(gt=0, le=300)] = 30.0
    drain: tuple[Argument, ...] = ()
    resume: tuple[Argument, ...] = ()
    state: tuple[Argument, ...] = ()

    @model_validator(mode="after")
    def _check_commands(self) -> Self:
        commands = [bool(each) for each in (self.drain, self.resume, self.state)]
        if any(commands) != (self.hook == "command") or len(set(commands)) > 1:
            raise ValueError(
                "the hook command needs drain, resume and state; the other hooks take none of them"
            )
        return self


class ExporterLogin(_Entry):
    """How exporters are asked that want a password, or have certificates of the site's own."""

    username: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,64}$")] = ""
    password_file: Path | None = None
    ca_file: Path | None = None


NO_LOGIN = ExporterLogin()


class AlertRule(_Entry):
    """What an alert of Alertmanager does that is not one of the rules."""

    alert: Text
    action: Action
    measure: Measure = "hold"


class _PolicyFile(_Entry):
    rules: tuple[RuleChange, ...] = ()
    own_rules: Annotated[tuple[WatchRule, ...], Field(max_length=200)] = ()
    exporters: Annotated[tuple[SiteExporter, ...], Field(max_length=16)] = ()
    alerts: Annotated[tuple[AlertRule, ...], Field(max_length=200)] = ()
    drain: DrainHook | None = None
    login: ExporterLogin = NO_LOGIN
    at_most_percent: Annotated[float, Field(gt=0, le=100)] = 20.0


@dataclass(frozen=True)
class WatchPolicy:
    """The rules with this site's actions, and everything else that it chose.

    ``at_most_percent``: when so many of the watched nodes are out of use by the watch, further findings are recorded
    and nothing is done: a fault that all nodes have at once is hardly one of each.
    """

    rules: tuple[WatchRule, ...]
    exporters: tuple[SiteExporter, ...] = ()
    alerts: tuple[AlertRule, ...] = ()
    drain: DrainHook | None = None
    login: ExporterLogin = NO_LOGIN
    at_most_percent: float = 20.0

    def find_rule(self, name: str) -> WatchRule | None:
        """Return the rule of this name, None where there is none."""
        return next((rule for rule in self.rules if rule.rule == name), None)


DEFAULT_POLICY = WatchPolicy(load_watch_rules())


def parse_watch_policy(text: str, where: str) -> WatchPolicy:
    """Return what a site's file says; anything wrong is one InputError with its place."""
    document = decode_yaml(text, where)
    if not isinstance(document, dict):
        raise InputError("must be a mapping", where=where, remedy="see docs/watch.md")
    file = validate_with_pydantic(_PolicyFile, document, where)
    rules = {rule.rule: rule for rule in load_watch_rules()}
    for number, rule in enumerate(file.own_rules):
        if rule.rule in rules:
            remedy = "change the action of a shipped rule under rules"
            raise InputError(
                f"two rules are called {rule.rule}", where=where, key=f"own_rules.{number}", remedy=remedy
            )
        rules[rule.rule] = rule
    for number, change in enumerate(file.rules):
        key = f"rules.{number}"
        _check_name(change.rule, list(rules), where, f"{key}.rule")
        if not is_iso_date(change.date):
            shown = make_printable(change.date, 40)
            raise InputError(f"{shown!r} is not a past date (YYYY-MM-DD)", where=where, key=f"{key}.date")
        update = {"action": change.action} | ({"measure": change.measure} if change.measure else {})
        rules[change.rule] = rules[change.rule].model_copy(update=update)
    kept = tuple(rule for rule in rules.values() if rule.action != "off")
    return WatchPolicy(kept, file.exporters, file.alerts, file.drain, file.login, file.at_most_percent)


def _check_name(name: str, names: Sequence[str], where: str, key: str) -> None:
    if name not in names:
        similar = get_close_matches(name, names, n=1)
        remedy = f"did you mean {similar[0]}?" if similar else "gpufleet watch rules lists them"
        raise InputError(f"{make_printable(name, 60)!r} is not a rule", where=where, key=key, remedy=remedy)
