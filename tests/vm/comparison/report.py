"""A line's rounds become medians and gains: the table on the screen, and JSON of Google Benchmark's shape. Also for the
bench of tests/process."""

from __future__ import annotations

import json
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from comparison.perftest import Metric

_TITLE_WIDTH, _CELL_WIDTH, _GAIN_WIDTH = 34, 24, 13


class Contender(Protocol):
    """One of those that are compared: `key` in the JSON, `title` in the table."""

    @property
    def key(self) -> str: ...
    @property
    def title(self) -> str: ...


class Line(Protocol):
    """One line of a comparison: `name` in the JSON, `title` in the table."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def metrics(self) -> tuple[Metric, ...]: ...


C = TypeVar("C", bound=Contender)


@dataclass(frozen=True)
class Comparison(Generic[C]):
    """What a bench compares. A gain, by its name in the JSON, is how many times better `ours` is than the best of some others.
    `group` begins the names of the JSON's benchmarks."""

    group: str
    contenders: tuple[C, ...]
    ours: C
    gains: dict[str, tuple[C, ...]]


@dataclass
class Outcome(Generic[C]):
    """The result of a line, by contender: its metrics in each round, or the error that ended its measurement. A metric that a
    contender does not have is nan."""

    comparison: Comparison[C]
    line: Line
    rounds: dict[str, list[list[float]]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def values(self, contender: C, metric: Metric) -> list[float]:
        """One metric of a contender in each round; empty if it failed, or does not have the metric."""
        if contender.key in self.errors:
            return []
        index = self.line.metrics.index(metric)
        return [figures[index] for figures in self.rounds[contender.key] if not math.isnan(figures[index])]

    def median(self, contender: C, metric: Metric) -> float | None:
        """None without a figure."""
        values = self.values(contender, metric)
        return statistics.median(values) if values else None

    def gain(self, over: tuple[C, ...], metric: Metric) -> float | None:
        """How many times better `ours` is than the best of `over`, by the medians. None if either has no figure."""
        ours = self.median(self.comparison.ours, metric)
        theirs = [median for median in (self.median(contender, metric) for contender in over) if median is not None]
        return min(metric.gain(ours, median) for median in theirs) if ours is not None and theirs else None


def compare(comparison: Comparison[C], line: Line, rounds: int, measure: Callable[[C], list[float]],
            failures: tuple[type[Exception], ...]) -> Outcome[C]:
    """Measures each contender in each round, beginning with another one each time. An exception in `failures`
    ends only that contender's measurement."""
    contenders = comparison.contenders
    outcome = Outcome(comparison, line, {contender.key: [] for contender in contenders})
    for number in range(rounds):
        first = number % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            if contender.key in outcome.errors:
                continue
            try:
                outcome.rounds[contender.key].append(measure(contender))
            except failures as error:
                outcome.errors[contender.key] = f"{type(error).__name__}: {error}"
    return outcome


def exit_code(run: Callable[[], int], failures: tuple[type[Exception], ...]) -> int:
    """That of a bench: of `run`, or 1 after one of the failures, whose text it prints. SIGTERM ends it like Ctrl-C, with everything
    cleaned up."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run()
    except failures as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130


def heading(comparison: Comparison[C]) -> str:
    """The table's first line."""
    cells = "".join(f"{contender.title:>{_CELL_WIDTH}}" for contender in comparison.contenders)
    gains = "".join(f"{f'x {over[0].title}':>{_GAIN_WIDTH}}" for over in comparison.gains.values())
    return f"{'median (least-most)':<{_TITLE_WIDTH}}{cells}{gains}"


def rows(outcome: Outcome[C]) -> list[str]:
    """The table's lines of an outcome: one for each metric."""
    return [_row(outcome, metric) for metric in outcome.line.metrics]


def blocks(outcome: Outcome[C]) -> list[str]:
    """Another form of the table, for many contenders: for each metric a line for each contender, with the gain over it."""
    return [text for metric in outcome.line.metrics for text in (_title(outcome, metric), *_block(outcome, metric))]


def entries(outcome: Outcome[C]) -> list[dict[str, Any]]:
    """The JSON's benchmarks of an outcome."""
    return [_entry(outcome, metric) for metric in outcome.line.metrics]


def beginning() -> dict[str, Any]:
    """What the JSON says of the machine when a bench begins."""
    return {"date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "num_cpus": os.cpu_count(), "load_avg": os.getloadavg()}


def save(context: dict[str, Any], benchmarks: list[dict[str, Any]], target: Path) -> None:
    """Writes the JSON that bench/compare reads. `context` began as beginning()."""
    context["load_avg_end"] = os.getloadavg()
    print(f"load average: {context['load_avg'][0]:.1f} before, {context['load_avg_end'][0]:.1f} after; JSON in {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"context": context, "benchmarks": benchmarks}, indent=2), encoding="utf-8")


def _title(outcome: Outcome[C], metric: Metric) -> str:
    return f"{outcome.line.title}, {' '.join(filter(None, (metric.label, metric.unit)))}"


def _row(outcome: Outcome[C], metric: Metric) -> str:
    cells = "".join(f"{_cell(outcome, contender, metric):>{_CELL_WIDTH}}" for contender in outcome.comparison.contenders)
    gains = "".join(f"{'-' if gain is None else f'{gain:.1f}':>{_GAIN_WIDTH}}"
                    for gain in (outcome.gain(over, metric) for over in outcome.comparison.gains.values()))
    return f"{_title(outcome, metric):<{_TITLE_WIDTH}}{cells}{gains}"


def _block(outcome: Outcome[C], metric: Metric) -> Iterator[str]:
    for contender in outcome.comparison.contenders:
        gain = None if contender is outcome.comparison.ours else outcome.gain((contender,), metric)
        tail = "" if gain is None else f"{_three_digits(gain):>{_GAIN_WIDTH}}"
        yield f"  {contender.title:<{_TITLE_WIDTH - 2}}{_cell(outcome, contender, metric):>{_CELL_WIDTH}}{tail}"


def _cell(outcome: Outcome[C], contender: C, metric: Metric) -> str:
    values = outcome.values(contender, metric)
    if not values:
        return "failed" if contender.key in outcome.errors else "-"
    least, most = (_three_digits(value) for value in (min(values), max(values)))
    return f"{_three_digits(statistics.median(values))} ({least}-{most})"


def _three_digits(value: float) -> str:
    return f"{value:,.{max(0, 2 - math.floor(math.log10(value)))}f}"


def _entry(outcome: Outcome[C], metric: Metric) -> dict[str, Any]:
    name = "/".join(filter(None, (outcome.comparison.group, outcome.line.name, metric.label)))
    entry: dict[str, Any] = {"name": name, "run_type": "iteration", "unit": metric.unit}
    for contender in outcome.comparison.contenders:
        if values := outcome.values(contender, metric):
            entry |= {contender.key: statistics.median(values), f"{contender.key}_rounds": values}
    gains = {counter: outcome.gain(over, metric) for counter, over in outcome.comparison.gains.items()}
    entry |= {counter: gain for counter, gain in gains.items() if gain is not None}
    if outcome.errors:
        entry |= {"error_occurred": not any(gains.values()), "errors": outcome.errors}
    return entry
