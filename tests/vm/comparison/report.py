"""A line's rounds become medians and gains: the table on the screen, and JSON of Google Benchmark's shape."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from comparison.machines import CONTENDERS, MAPPED, SOFT_ROCE, TRAPPED, Contender
from comparison.perftest import Line, Metric

_TITLE_WIDTH, _CELL_WIDTH, _GAIN_WIDTH = 34, 24, 13
# The JSON's names for how many times better mapped doorbells are than each of these.
_GAINS = {"gain_over_trapped": TRAPPED, "gain_over_soft_roce": SOFT_ROCE}


@dataclass
class Outcome:
    """The result of a line, by contender: its metrics in each round, or the error that ended its measurement."""

    line: Line
    rounds: dict[str, list[list[float]]] = field(default_factory=lambda: {contender.key: [] for contender in CONTENDERS})
    errors: dict[str, str] = field(default_factory=dict)

    def values(self, contender: Contender, metric: Metric) -> list[float]:
        """One metric of a contender in each round; empty if it failed."""
        if contender.key in self.errors:
            return []
        index = self.line.metrics.index(metric)
        return [figures[index] for figures in self.rounds[contender.key]]

    def gain(self, over: Contender, metric: Metric) -> float | None:
        """How many times better mapped doorbells are than `over`, by the medians. None if either failed."""
        ours, theirs = (self.values(contender, metric) for contender in (MAPPED, over))
        return metric.gain(statistics.median(ours), statistics.median(theirs)) if ours and theirs else None


def compare(line: Line, rounds: int, measure: Callable[[Contender], list[float]],
            failures: tuple[type[Exception], ...]) -> Outcome:
    """Measures each contender in each round, beginning with another one each time. An exception in `failures`
    ends only that contender's measurement."""
    outcome = Outcome(line)
    for number in range(rounds):
        first = number % len(CONTENDERS)
        for contender in (*CONTENDERS[first:], *CONTENDERS[:first]):
            if contender.key in outcome.errors:
                continue
            try:
                outcome.rounds[contender.key].append(measure(contender))
            except failures as error:
                outcome.errors[contender.key] = f"{type(error).__name__}: {error}"
    return outcome


def heading() -> str:
    """The table's first line."""
    cells = "".join(f"{contender.title:>{_CELL_WIDTH}}" for contender in CONTENDERS)
    gains = "".join(f"{'x ' + over.title:>{_GAIN_WIDTH}}" for over in _GAINS.values())
    return f"{'median (least-most)':<{_TITLE_WIDTH}}{cells}{gains}"


def rows(outcome: Outcome) -> list[str]:
    """The table's lines of an outcome: one for each metric."""
    return [_row(outcome, metric) for metric in outcome.line.metrics]


def entries(outcome: Outcome) -> list[dict[str, Any]]:
    """The JSON's benchmarks of an outcome."""
    return [_entry(outcome, metric) for metric in outcome.line.metrics]


def _row(outcome: Outcome, metric: Metric) -> str:
    title = f"{outcome.line.title}, {' '.join(filter(None, (metric.label, metric.unit)))}"
    cells = "".join(f"{_cell(outcome.values(contender, metric)):>{_CELL_WIDTH}}" for contender in CONTENDERS)
    gains = "".join(f"{'-' if gain is None else f'{gain:.1f}':>{_GAIN_WIDTH}}"
                    for gain in (outcome.gain(over, metric) for over in _GAINS.values()))
    return f"{title:<{_TITLE_WIDTH}}{cells}{gains}"


def _cell(values: list[float]) -> str:
    if not values:
        return "failed"
    least, most = (_three_digits(value) for value in (min(values), max(values)))
    return f"{_three_digits(statistics.median(values))} ({least}-{most})"


def _three_digits(value: float) -> str:
    return f"{value:,.{max(0, 2 - math.floor(math.log10(value)))}f}"


def _entry(outcome: Outcome, metric: Metric) -> dict[str, Any]:
    name = "/".join(filter(None, ("VmToVm", outcome.line.name, metric.label)))
    entry: dict[str, Any] = {"name": name, "run_type": "iteration", "unit": metric.unit}
    for contender in CONTENDERS:
        if values := outcome.values(contender, metric):
            entry |= {contender.key: statistics.median(values), f"{contender.key}_rounds": values}
    gains = {counter: outcome.gain(over, metric) for counter, over in _GAINS.items()}
    entry |= {counter: gain for counter, gain in gains.items() if gain is not None}
    if outcome.errors:
        entry |= {"error_occurred": not any(gains.values()), "errors": outcome.errors}
    return entry
