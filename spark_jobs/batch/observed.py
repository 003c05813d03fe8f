"""How many rows an action had, whatever their types: Spark counts them in the stage that uses them."""

from __future__ import annotations

import threading

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

_COUNT = "rows"
_PATIENCE_S = 60.0


class Observed:
    """`rows` are those of a DataFrame, to be used in one action; after that `count()` says how many there were.

    Spark counts a task that it runs again once, because the rows are used in the last stage.
    """

    def __init__(self, given: DataFrame) -> None:
        self._given = given
        self._observation = Observation()
        self.rows = given.observe(self._observation, F.count(F.lit(1)).alias(_COUNT))

    def count(self, patience_s: float = _PATIENCE_S) -> int:
        """Return the number of rows. Early releases of Spark do not tell it where they read no rows; then they are counted again."""
        found: list[int] = []

        def ask() -> None:
            found.append(int(self._observation.get[_COUNT]))

        asking = threading.Thread(target=ask, name="spark-observation", daemon=True)
        asking.start()
        asking.join(patience_s)
        return found[0] if found else self._given.count()
