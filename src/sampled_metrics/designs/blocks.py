"""The analysis of a log whose users are ranked within blocks: each among the items of its block.

If blocks partition the corpus at random, a user's sampled rank is as among so many uniform draws
without replacement. The users of a block share their candidates, so that only blocks are
independent: if users come with their items from a population, other blocks hold other draws.
Standard errors are over blocks (a jackknife of the linearised estimate, in which a block is left
out), and bets are on the means of blocks. Intervals are for corpora like this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np

from .._validate import FloatArray
from ..log.compact import InBlocks, Log
from ..metrics import Metric
from .analysis import Request
from .judging import Pair, Paired, Verdict
from .ranges import MetricInterval
from .sample import Sample, UserMean
from .track_record import Record
from .uniform import UniformAnalysis

_ONE = (
    "one block has no interval: its users share their candidates, so that it is one draw; two or "
    "more have a standard error and intervals, and that of an AUC near 0.5 is 0.42 wide with ten"
)


class _OfBlocks(Log):
    """A log whose sums by user are means by block."""

    def user_sums(
        self, values: Mapping[str, FloatArray]
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        assert self.groups is not None
        block = self.groups.cat.codes.to_numpy()
        columns = [np.append(0.0, column * self._share) for column in values.values()]
        recommenders = [self.recommenders.index(name) for name in values]
        totals = np.zeros((2, int(block.max()) + 1))
        for (users, rows), (_, presence) in zip(
            self._rows(*recommenders), self._presence(*recommenders), strict=True
        ):
            for column, (code, user) in zip(columns, rows, strict=True):
                of_row = block[users] if user is None else block[users][user]
                totals[0] += np.bincount(of_row, column[code], totals.shape[1])
            has_rows = np.logical_or.reduce([counts > 0 for counts in presence])
            totals[1] += np.bincount(block[users], has_rows, totals.shape[1])
        is_used = totals[1] > 0
        yield totals[0, is_used] / totals[1, is_used], np.ones(int(is_used.sum()))


class BlockSample(Sample):
    """A sample whose independent units are blocks of users."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        assert log.groups is not None
        self.n_blocks = int(log.groups.nunique())
        self.log = _OfBlocks(**{field.name: getattr(log, field.name) for field in fields(log)})
        self.one_row_per_user = False  # as bets see it

    def units(self, recommender: str) -> int:
        return self.n_blocks

    def mean(
        self, row_values: Mapping[str, FloatArray], users: int, value: float | None = None
    ) -> UserMean:
        mean = super().mean(row_values, self.users[next(iter(row_values))], value)
        return replace(mean, users=self.n_blocks)

    def error(self, row_values: Mapping[str, FloatArray], users: int, mean: float) -> float:
        return super().error(row_values, self.n_blocks, mean) if self.n_blocks > 1 else np.nan

    def share(self, recommender: str) -> FloatArray:
        """The mean over blocks of their users' shares."""
        kinds = np.eye(len(self.bet_kinds[0]))[:, self.bet_kinds[1]]
        sums = [next(self.log.user_sums({recommender: of_kind}))[0] for of_kind in kinds]
        return np.array([shares.mean() for shares in sums])

    def enlarged(self, recommender: str) -> None:
        return None  # the tests are for independent users


class BlockAnalysis(UniformAnalysis):
    """Estimates are as for samples of the size of a block; errors and intervals over blocks."""

    sample_class: ClassVar[type[Sample]] = BlockSample
    sample: BlockSample

    @classmethod
    def takes(cls, log: Any) -> bool:
        return isinstance(log, Log) and isinstance(log.protocol, InBlocks)

    def __init__(self, log: Log, request: Request) -> None:
        if log.groups is None:
            raise ValueError("by must be left out for a log with blocks")
        super().__init__(log, request)

    def estimates(self, *, progress: bool) -> Any:
        result = super().estimates(progress=progress)
        n_users, n_blocks = max(self.sample.users.values()), self.sample.n_blocks
        note = (
            f"standard errors and intervals are over {n_blocks:,} blocks of the {n_users:,} users, "
            "for corpora like this one"
        )
        return replace(result, notes=(*result.notes, note if n_blocks > 1 else _ONE))

    def ranges(
        self, metric: Metric, naive: Mapping[str, UserMean]
    ) -> tuple[dict[str, MetricInterval], list[str]]:
        return super().ranges(metric, naive) if self.sample.n_blocks > 1 else ({}, [])

    def record(self, metric: Metric, estimator: str) -> tuple[Record | None, str]:
        return None, "users of a block share their candidates, and those of the benchmark do not"

    def verdicts(self, paired: Paired, bar: Any) -> tuple[dict[Pair, Verdict], list[str]]:
        if self.sample.n_blocks < 2:
            raise ValueError(f"blocks must be 2 or more to compare recommenders, got 1: {_ONE}")
        verdicts, notes = super().verdicts(paired, bar)
        return {pair: replace(each, users_needed=None) for pair, each in verdicts.items()}, notes
