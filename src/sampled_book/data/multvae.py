"""Mult-VAE (Liang et al., 2018) in PyTorch, on one thread.

A variational autoencoder of a user's set of items: it turns the items into a normal distribution of
a latent vector, and a draw of this vector into the chances of all items. The loss is the negative
multinomial log-likelihood of the user's items, plus the Kullback-Leibler divergence from a standard
normal. The weight of the divergence rises from 0 to `cap` in `anneal_steps` steps. Scores come from
the mean vector.

In catalogues of more than `full_softmax_items` items the hidden layers are narrower, and only a
user's own items and some negatives count for the sum over all items. A batch shares the negatives,
which are drawn and corrected for as in :mod:`~sampled_book.data.sasrec`. That module also says how
the training ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import nn

from sampled_metrics._validate import IntArray

from .neural import Trained
from .sasrec import fit, negative_weights, seeded
from .sequences import Sequences


class Network(nn.Module):  # type: ignore[misc]  # where PyTorch is missing
    """The layers with their initial weights."""

    def __init__(self, n_items: int, settings: Mapping[str, float]) -> None:
        super().__init__()
        is_sparse = n_items > settings["full_softmax_items"]
        width = int(settings["sparse_width" if is_sparse else "width"])
        latent = int(settings["latent"])
        self.first = nn.EmbeddingBag(n_items, width, mode="sum", sparse=is_sparse)
        self.first_bias = nn.Parameter(torch.zeros(width))
        self.to_latent = nn.Linear(width, 2 * latent)
        self.to_hidden = nn.Linear(latent, width)
        self.last = nn.Embedding(n_items, width, sparse=is_sparse)
        self.last_bias = nn.Embedding(n_items, 1, sparse=is_sparse)
        self.dropout = settings["dropout"]
        for layer in (self.first, self.to_latent, self.to_hidden, self.last):
            nn.init.xavier_normal_(layer.weight)
        nn.init.zeros_(self.last_bias.weight)

    def posterior(self, histories: sp.csr_array) -> tuple[torch.Tensor, torch.Tensor]:
        """Means, and logarithms of variances, of the latent vectors of some users."""
        sizes = np.diff(histories.indptr)
        shares = torch.from_numpy(np.repeat(1.0 / np.sqrt(np.maximum(sizes, 1)), sizes)).float()
        shares = nn.functional.dropout(shares, self.dropout, self.training)
        items, starts = (
            torch.from_numpy(part.astype(np.int64))
            for part in (histories.indices, histories.indptr[:-1])
        )
        hidden = (self.first(items, starts, shares) + self.first_bias).tanh()
        mean, log_variance = self.to_latent(hidden).chunk(2, dim=1)
        return mean, log_variance

    def scores(self, latent: torch.Tensor, items: IntArray) -> torch.Tensor:
        """Logits of some items, shape (users, items)."""
        chosen = torch.from_numpy(items)
        return self.to_hidden(latent).tanh() @ self.last(chosen).T + self.last_bias(chosen).T


def loss(
    model: Network,
    histories: sp.csr_array,
    items: IntArray,
    log_weights: torch.Tensor,
    divergence_weight: float,
) -> torch.Tensor:
    """Mean over users. `items` hold the users' own, which count once; each of the others counts
    exp(`log_weights`) times in the sum over all items.
    """
    mean, log_variance = model.posterior(histories)
    latent = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
    scores = model.scores(latent, items)
    owned = torch.from_numpy(histories[:, items].toarray())
    total = torch.where(owned > 0, scores, scores + log_weights).logsumexp(dim=1, keepdim=True)
    likelihood = (owned * (scores - total)).sum(dim=1)
    divergence = 0.5 * (mean**2 + log_variance.exp() - 1.0 - log_variance).sum(dim=1)
    return (divergence_weight * divergence - likelihood).mean()


def candidates(
    own: IntArray, weights: torch.Tensor | None, negatives: int, n_items: int
) -> tuple[IntArray, torch.Tensor]:
    """Items for the loss of a batch whose users have the items `own`, and their `log_weights`:
    all, or with negatives, each of which counts for as many as one over its expected number.
    """
    if weights is None:
        return np.arange(n_items), torch.zeros(n_items)
    drawn = torch.multinomial(weights, negatives, replacement=True).numpy()
    items = np.union1d(own, drawn)
    times = torch.from_numpy(np.bincount(np.searchsorted(items, drawn), minlength=items.size))
    expected = negatives * weights[torch.from_numpy(items)] / weights.sum()
    return items, (times / expected).log().float()


def learn(data: Sequences, **settings: float) -> Trained:
    """Train a model; `data` holds the validation items as each user's last."""
    rng, steps = seeded(), count()
    model = Network(data.n_items, settings)
    weights = negative_weights(data, settings)

    def losses(known: Sequences) -> Iterator[torch.Tensor]:
        n_batches = -(-known.n_users // int(settings["users"]))
        for users in np.array_split(rng.permutation(known.n_users), n_batches):
            histories = known.matrix[users].astype(np.float32)
            own = np.unique(histories.indices)
            chosen = candidates(own, weights, int(settings["negatives"]), known.n_items)
            risen = min(1.0, next(steps) / settings["anneal_steps"])
            yield loss(model, histories, *chosen, settings["cap"] * risen)

    return fit(model, data, settings, losses, scored)


def scored(model: Network, data: Sequences, users: IntArray) -> NDArray[np.float32]:
    """Scores of all items for some users with these histories, shape (users, n_items)."""
    with torch.no_grad():
        mean, _ = model.eval().posterior(data.matrix[users])
        return np.asarray(model.scores(mean, np.arange(data.n_items)).numpy())
