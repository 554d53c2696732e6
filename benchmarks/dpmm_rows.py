"""Rows of AIM or MST as the package dpmm has them; run by an interpreter in which dpmm is installed, for its pins.

`python dpmm_rows.py aim|mst CODES.npy ROWS.npy epsilon delta`; `python -m benchmarks.beside --methods dpmm-aim
dpmm-mst` runs it by `RESIDUA_DPMM`, the path of such an interpreter. Its models are given the domain, a tree of 4 MB,
one process and 500 iterations per fit, and otherwise have their own defaults.
"""

import sys

import numpy as np
import pandas as pd
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM

_ITERATIONS = 500  # of mirror descent per fit; their defaults take minutes


def main() -> None:
    name, codes, out, epsilon, delta = sys.argv[1:]
    data = pd.DataFrame(np.load(codes))
    data.columns = [f"c{i}" for i in data.columns]
    domain = {column: int(data[column].max()) + 1 for column in data}
    kind = {"aim": AIMGM, "mst": MSTGM}[name]
    model = kind(epsilon=float(epsilon), delta=float(delta), max_model_size=4, n_jobs=1, n_iters=_ITERATIONS)
    model.set_domain(domain)
    model.fit(data)
    np.save(out, model.generate(len(data))[list(domain)].to_numpy().astype(np.int64))


if __name__ == "__main__":
    main()
