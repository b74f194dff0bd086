"""The public names, and the module of each. `__init__.py` reads this file to load them lazily."""

from . import (
    consistency as consistency,
)
from . import (
    estimators as estimators,
)
from . import (
    orders as orders,
)
from . import (
    priors as priors,
)
from . import (
    readers as readers,
)
from . import (
    results as results,
)
from .auditing import audit as audit
from .bounds.identification import (
    IncompatibleError as IncompatibleError,
)
from .bounds.identification import (
    Interval as Interval,
)
from .bounds.identification import (
    interval as interval,
)
from .estimators import Estimator as Estimator
from .evaluation import anchors as anchors
from .evaluation import compare as compare
from .evaluation import estimate as estimate
from .evaluation.loop import RankMetric as RankMetric
from .evaluation.loop import evaluate as evaluate
from .log.compact import Log as Log
from .log.read import read_log as read_log
from .metrics import Metric as Metric
from .metrics import metric as metric
from .planning import plan as plan
from .protocol import Protocol as Protocol
from .published_tables import published as published
from .ranking.exact import exact_ranks as exact_ranks
from .ranking.files import rank as rank
from .ranking.intervals import RankIntervals as RankIntervals
from .relevant_sets import RelevantSets as RelevantSets

__version__: str
