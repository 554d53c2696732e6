"""The public surface is the root `__all__`: a change here is a change of the contract."""

import residua as rs

PUBLIC = {
    "AddRemove",
    "Anonymous",
    "ApproxDP",
    "Axis",
    "Bins",
    "Blockwise",
    "Categories",
    "CodeList",
    "Continual",
    "ConvexLoss",
    "Dates",
    "Domain",
    "Estimated",
    "GDP",
    "GapWarning",
    "Integers",
    "LargestVariances",
    "Lattice",
    "Ledger",
    "Matrix",
    "MaxVariance",
    "PNormVariance",
    "Person",
    "Plan",
    "Projected",
    "PureDP",
    "RecordsPerPerson",
    "Release",
    "ReplaceOne",
    "ResiduaError",
    "Session",
    "Source",
    "Stakeholders",
    "Table",
    "TotalVariance",
    "Tree",
    "ZCDP",
    "analysis",
    "between",
    "by_group",
    "common",
    "estimate",
    "explicit",
    "for_mbi",
    "hierarchy",
    "independent",
    "marginals",
    "measure",
    "plan",
    "plan_estimates",
    "pooled",
    "prefixes",
    "product",
    "project",
    "queries",
    "ranges",
    "records_per_person",
    "residual",
    "score",
    "top_up",
}


def test_the_public_names_are_these():
    assert set(rs.__all__) == PUBLIC
    assert len(rs.__all__) == len(set(rs.__all__))


def test_every_public_name_exists_and_explains_itself():
    for name in rs.__all__:
        assert getattr(rs, name).__doc__, name
