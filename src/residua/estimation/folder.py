"""Saved estimates: a folder that is whole or absent, says that it is biased, and notices when it was changed.

estimates.json     kind, version, total, priors, and the digest of every other file
fitted.npz         singles, pairs, errors, what was kept, what is odd (64-bit floats, no pickle)
facts.npz          the public facts that were met
ESTIMATES.md       what was done and how accurate it is, for people
release/           the release that the estimates were made from
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from residua import folders
from residua.estimation.fit import Fitted
from residua.estimation.mixture import Pairs, Values
from residua.estimation.observed import Public
from residua.estimation.shrinkage import SCALES, Prior
from residua.files import read_document, require_path, write_document
from residua.projection.folder import read_beside, write_beside

if TYPE_CHECKING:
    from residua.estimation.estimate import Estimated

KIND, VERSION = "residua estimates", 1
NAME = "estimates.json"
_FILES = ("fitted.npz", "facts.npz", "ESTIMATES.md")
_SAME = 1e-6  # by what part of the total tables may miss it: sums of rounded numbers


def save_estimates(estimated: Estimated, path: Path) -> None:
    """Writes estimates as a folder, whole or not at all."""
    fitted = estimated.fitted
    with folders.whole_folder(path, "folder of estimates") as folder:
        folders.write_synced(
            folder / "fitted.npz",
            folders.archive_of(
                {**{name: getattr(fitted, name) for name in _forms(fitted.values)}, "pairs": fitted.pairs.flat}
            ),
        )
        beside = write_beside(folder, estimated.release, estimated.public.facts, "ESTIMATES.md", estimated.statement)
        body = {
            "total": fitted.total,
            "total_error": fitted.total_error,
            "total_given": estimated.total_given,
            "priors": [[size, one.tolist()] for size, one in sorted(fitted.priors.items())],
            **beside,
            "files": folders.digests_of(folder, _FILES),
        }
        write_document(folder / NAME, KIND, VERSION, body)


def load_estimates(path: Path) -> tuple[Any, ...]:
    """Reads what saved estimates are made of, in order, refusing ones that were changed.

    Nothing in the folder is trusted: only regular files are opened, and each only once its size is known to fit.
    """
    require_path(path)
    folders.require_folder(path, "estimates", NAME, "make them with residua estimate")
    folders.require_files(path, _FILES, "folder of estimates")
    body = read_document(path / NAME, KIND, VERSION)
    with folders.refusing_damage(f"the estimates {str(path)!r} are"):
        release, facts = read_beside(path, body, "ESTIMATES.md", "folder of estimates")
        values = Values(release.domain.sizes.astype(np.int64))
        forms = _forms(values)
        folders.check_digests(path, body["files"], {"fitted.npz": folders.archive_size(forms)}, "folder of estimates")
        arrays = folders.read_archive(path / "fitted.npz", forms)
        for name in ("singles", "pairs"):
            if not (np.isfinite(arrays[name]).all() and (arrays[name] >= 0).all()):
                raise ValueError("an estimate is negative or no number")
        total, error = float(body["total"]), float(body["total_error"])
        if not (0 < total < math.inf and error >= 0):
            raise ValueError("its total is none")
        if not np.allclose(np.add.reduceat(arrays["singles"], values.starts), total, rtol=_SAME, atol=0.0):
            raise ValueError("its total is not that of its tables")
        priors = {int(size): _prior(weights) for size, weights in body["priors"]}
        public = Public(release.domain, facts)
        pairs = Pairs(values, arrays.pop("pairs"))
        fitted = Fitted(values, total, pairs=pairs, total_error=error, priors=priors, **arrays)
        return release, public, fitted, bool(body["total_given"])


def _forms(values: Values) -> dict[str, folders.ArrayForm]:
    """The form of each array of a fit."""
    d, w = len(values.sizes), int(values.sizes.sum())
    shapes = {"singles": (w,), "pairs": (values.pair_cells,), "errors": (d, d), "kept": (d, d), "doubt": (d, d)}
    return {name: folders.ArrayForm(np.dtype(np.float64), shape) for name, shape in shapes.items()}


def _prior(weights: list[float]) -> Prior:
    values = np.array(weights, dtype=np.float64)
    if values.shape != (SCALES,) or not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError("a prior is none")
    return values
