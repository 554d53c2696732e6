"""Hand-off to mbi: its loss is the likelihood of the release, and it makes rows that look like the release."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from residua.projection.synthetic import for_mbi, query_of
from tests.laws.projections import all_two_way, queries_release


def squares(release, histogram):
    """Squared residuals of all measurements, each over its own variance, from a histogram of all cells."""
    total = 0.0
    for one in release.estimator.cliques():
        axes = tuple(i for i in range(len(release.domain)) if i not in one.members)
        table = histogram.sum(axis=axes)
        answered = query_of(one)(_Factor(table))
        total += (((answered - one.values) / one.stddev) ** 2).sum()
    return total


class _Factor:
    """What a query needs of mbi's factors."""

    def __init__(self, table):
        self.table = table

    def datavector(self, flatten=True):
        return self.table.ravel() if flatten else self.table


@pytest.mark.parametrize("kind", ["residual", "dense"])
def test_squared_differences_between_datasets_are_those_of_the_release_in_its_own_metric(tmp_path, kind):
    """Between two datasets the loss changes as the distance from the unbiased estimates, weighted by covariance."""
    release = (all_two_way if kind == "residual" else queries_release)(tmp_path)
    rng = np.random.default_rng(0)
    first, second = (rng.integers(0, 9, (5, 2, 3)).astype(float) for _ in range(2))
    workload = release.plan.workload

    def distance(histogram):
        if kind == "dense":
            W = workload.over(release.plan.attributes).toarray()
            apart = W @ histogram.ravel() - release.answers(workload).estimates
            return apart @ np.linalg.pinv(release.plan.covariance(workload)) @ apart
        total = 0.0
        for number, precision in enumerate(release.plan.precisions):
            members = release.plan.lattice.members(number)
            apart = histogram.sum(axis=tuple(i for i in range(3) if i not in members))
            apart = apart - release.estimates([release.domain.names[i] for i in members])
            for axis in range(apart.ndim):
                apart = apart - apart.mean(axis=axis, keepdims=True)
            total += precision * (apart**2).sum()
        return total

    change = squares(release, first) - squares(release, second)
    assert change == pytest.approx(distance(first) - distance(second), rel=1e-6)


CHECKS = """
assert rows.column_names == ["age", "married", "work"] and rows.num_rows == 5_000
assert all(one == "no" for years, one in zip(rows["age"].to_pylist(), rows["married"].to_pylist()) if years < 2)
cliques = {m.clique for m in handed.measurements}
assert cliques == {("age",), ("married",), ("work",), ("age", "married"), ("age", "work"), ("married", "work")}
for names in (["age"], ["age", "work"]):
    shape = [domain[name].size for name in names]
    codes = [[domain[name].labels.index(label) for label in rows[name].to_pylist()] for name in names]
    found = np.bincount(np.ravel_multi_index(codes, shape), minlength=int(np.prod(shape))).reshape(shape)
    # Both carry noise: of the release (a standard deviation of about 5) and of rounding to rows (below 2 a cell).
    assert np.abs(found * handed.total / 5_000 - release.estimates(names)).max() < 60, names
print("rows made")
"""


def test_the_example_of_the_page_makes_rows_like_the_release(tmp_path):
    """In a process of its own: jax forbids forking, which other tests do."""
    guide = Path(__file__).parents[2] / "docs" / "how-to" / "synthetic.md"
    (example,) = re.findall(
        r"<!-- test: synthetic -->\n```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL
    )
    command = [sys.executable, "-W", "error", "-c", example + CHECKS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.stdout == "rows made\n", done.stderr


def test_what_cannot_be_handed_over_is_told(tmp_path, monkeypatch):
    with pytest.raises(rs.ResiduaError, match="cannot be handed over"):
        for_mbi("release")
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(rs.ResiduaError, match=r'pip install "residua\[synthetic\]"'):
        for_mbi(queries_release(tmp_path))
