"""What synthetic rows are good for: how far their tables and range queries are from the records', and what they teach.

The three kinds of metric of the benchmark of differentially private tabular data synthesis, in our own words: fidelity
(total variation distance of tables of pairs, half of their L1 distance over N), queries (the share of records in a
random range of three attributes each) and learning (classifiers trained on rows, tested on records that were held out).

Reference: Chen, Li, Gong, McKenna and Wang (2025), Benchmarking differentially private tabular data synthesis,
arXiv 2504.14061.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

_QUERIES, _CLASSES, _TARGETS = 500, 6, 3
_SHARE = 5  # one record of so many is held out


def query_error(codes: Any, rows: Any, random: Any) -> float:
    """The mean difference of the share of records and of rows in a random range of three attributes."""
    sizes, far = codes.max(axis=0) + 1, []
    for _ in range(_QUERIES):
        inside, own = np.ones(len(codes), dtype=bool), np.ones(len(rows), dtype=bool)
        for i in random.choice(len(sizes), min(3, len(sizes)), replace=False):
            low, high = np.sort(random.integers(0, sizes[i], 2))
            inside &= (codes[:, i] >= low) & (codes[:, i] <= high)
            own &= (rows[:, i] >= low) & (rows[:, i] <= high)
        far.append(abs(inside.mean() - own.mean()))
    return float(np.mean(far))


def held_out(codes: Any, seed: int) -> tuple[Any, Any]:
    """Records to measure, and a fifth to test on."""
    order = np.random.default_rng([seed, 14]).permutation(len(codes))
    cut = len(codes) // _SHARE
    return codes[order[cut:]], codes[order[:cut]]


def learned(rows: Any, test: Any, sizes: list[int]) -> float:
    """Macro F1 on held-out records of two classifiers trained on rows, the mean over the targets of fewest values."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score

    targets = [i for i in np.argsort(sizes, kind="stable").tolist() if sizes[i] <= _CLASSES][:_TARGETS]
    scores = []
    for target in targets:
        others = [i for i in range(len(sizes)) if i != target]
        coded = [np.concatenate([np.eye(sizes[i])[part[:, i]] for i in others], axis=1) for part in (rows, test)]
        models = LogisticRegression(max_iter=200), RandomForestClassifier(40, min_samples_leaf=5, random_state=1)
        for model in models:
            if len(np.unique(rows[:, target])) < 2:
                scores.append(f1_score(test[:, target], np.full(len(test), rows[0, target]), average="macro"))
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a fit has not converged
                guessed = model.fit(coded[0], rows[:, target]).predict(coded[1])
            scores.append(f1_score(test[:, target], guessed, average="macro"))
    return float(np.mean(scores)) if scores else math.nan


def rows_of(model: Any, random: Any) -> Any:
    """Rows of a junction tree, (rows, attributes): clique by clique, counts near what each should be.

    Args:
        model: a `benchmarks.junction.Model`.
        random: where the choices among equally good rows come from.
    """
    tree, n = model.tree, max(round(model.total), 1)
    codes = np.zeros((n, len(tree.sizes)), dtype=np.int64)
    for number, clique in enumerate(tree.cliques):
        shared = tree.separator(number) if number else ()
        new = tuple(i for i in clique if i not in shared)
        table = model.beliefs[number].astype(np.float64).transpose([clique.index(i) for i in (*shared, *new)])
        shape = [tree.sizes[i] for i in new]
        table = table.reshape(-1, math.prod(shape))
        groups = np.ravel_multi_index([codes[:, i] for i in shared], [tree.sizes[i] for i in shared]) if shared else 0
        order = np.lexsort([random.random(n), np.broadcast_to(groups, n)])
        ordered = np.broadcast_to(groups, n)[order]
        ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) + 1
        for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
            own = np.cumsum(table[ordered[start]])
            places = (np.arange(end - start) + random.random()) / (end - start) * own[-1]
            chosen = np.minimum(np.searchsorted(own, random.permutation(places)), len(own) - 1)
            codes[np.ix_(order[start:end], new)] = np.stack(np.unravel_index(chosen, shape), 1)
    return codes
