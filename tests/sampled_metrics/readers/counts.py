"""Counts of negatives, row by row, to compare the readers with."""

COUNTS = ["n_better", "n_tied", "n_negatives"]


def slow_counts(rows):
    """One row at a time: relevant row -> negatives above, level and in all."""
    found = {}
    for name, user, item, score, relevant in rows:
        if relevant:
            own = [s for n, u, _, s, r in rows if (n, u) == (name, user) and not r]
            found[name, user, item] = (
                sum(s > score for s in own),
                sum(s == score for s in own),
                len(own),
            )
    return found


def as_dict(frame):
    keys = frame[["recommender", "user", "item"]].itertuples(index=False, name=None)
    return dict(zip(keys, frame[COUNTS].itertuples(index=False, name=None), strict=True))


def rows_of(frame):
    return frame[COUNTS].to_numpy().tolist()


class Tensor:
    """What a reader sees of a tensor."""

    def __init__(self, values):
        self.values = values

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.values
