"""Saved projections: they come back whole, on any machine, and notice every change; long tables for other programs."""

import shutil

import numpy as np
import pytest

import residua as rs
from residua.projection.folder import _FILES, NAME
from tests.laws.projections import IMPOSSIBLE, all_two_way, queries_release


@pytest.mark.parametrize("kind", ["residual", "dense"])
def test_a_projection_comes_back_as_it_was(tmp_path, kind):
    release = (all_two_way if kind == "residual" else queries_release)(tmp_path, impossible=IMPOSSIBLE)
    release.save(tmp_path / "release")
    projected = rs.project(rs.Release.load(tmp_path / "release"), total=60, known={("sex",): [25, 35]}, metric="plain")
    projected.save(tmp_path / "projected")
    shutil.rmtree(tmp_path / "release")
    again = rs.Projected.load(tmp_path / "projected")
    for names in [[], ["sex"], ["age", "work"]]:
        np.testing.assert_array_equal(again.estimates(names), projected.estimates(names))
    assert (again.gap, again.infeasibility, again.bound) == (projected.gap, projected.infeasibility, projected.bound)
    assert again.statement == projected.statement == (tmp_path / "projected" / "PROJECTION.md").read_text()
    assert again.domain == projected.domain
    assert again.receipt == projected.receipt
    assert again.terms.metric == "plain"
    assert [fact.members for fact in again.terms.facts] == [(), (1,)]
    assert again.simulated_error(1).projected >= 0


@pytest.mark.parametrize("name", [*_FILES, NAME])
def test_a_changed_or_missing_file_is_refused(tmp_path, name):
    rs.project(queries_release(tmp_path)).save(tmp_path / "projected")
    path = tmp_path / "projected" / name
    content = path.read_bytes()
    changed = bytearray(content)
    changed[len(changed) // 2] ^= 1
    path.write_bytes(changed)
    with pytest.raises(rs.ResiduaError, match=r"changed|damaged"):
        rs.Projected.load(tmp_path / "projected")
    path.unlink()
    with pytest.raises(rs.ResiduaError, match=r"lacks|is not a projection"):
        rs.Projected.load(tmp_path / "projected")
    path.write_bytes(content)
    rs.Projected.load(tmp_path / "projected")


def test_folders_that_are_no_projections_are_named(tmp_path):
    release = queries_release(tmp_path)
    release.save(tmp_path / "release")
    with pytest.raises(rs.ResiduaError, match="it is a release: project it first"):
        rs.Projected.load(tmp_path / "release")
    with pytest.raises(rs.ResiduaError, match="no projection folder"):
        rs.Projected.load(tmp_path / "nowhere")
    projected = rs.project(release)
    projected.save(tmp_path / "projected")
    with pytest.raises(rs.ResiduaError, match="exists already"):
        projected.save(tmp_path / "projected")
    with pytest.raises(rs.ResiduaError, match="does not exist"):
        projected.save(tmp_path / "nowhere" / "projected")
    assert not list(tmp_path.glob(".*"))
