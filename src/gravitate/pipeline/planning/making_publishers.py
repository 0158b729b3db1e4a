"""The planner for publishers: the choice of GRAPE or POP, and what it changes.

The driver sees the moves, and figures of the size of the network.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gravitate.config.planning import PublisherOptions
from gravitate.pipeline.planning.making import Draft, Run, Tell
from gravitate.pipeline.planning.prediction import predicted
from gravitate.pipeline.planning.publishers import choices, moves_of
from gravitate.pipeline.planning.recorded import recorded
from gravitate.pipeline.store.store import Store


class PublisherPlanner(msgspec.Struct, frozen=True):
    choice: PublisherOptions
    kind = "publishers"

    def draft(self, spark: Any, store: Store, run: Run, tell: Tell) -> Draft:
        rows = recorded(
            store.traces(spark, "publications"), store.derived(spark, "publisher_profiles")
        )
        tell("choosing a broker for every publisher")
        better = choices(rows, run.overlay, self.choice).where("target <> source").collect()
        moves = moves_of(better, run.overlay, self.choice)
        tell(f"predicting what {len(moves)} moves change")
        goes = [(move.publisher, move.target) for move in moves]
        before, after = predicted(
            rows,
            spark.createDataFrame(goes, "publisher string, target string"),
            run.network,
            run.overlay,
            run.frame,
            cost=sum(move.why.cost for move in moves),
        )
        return Draft(
            moves=moves,
            before=before.metrics,
            after=after.metrics,
            parameters=self.choice.parameters(),
        )
