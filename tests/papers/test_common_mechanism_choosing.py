"""The age-by-gender application (common-mechanism, §7.5): four bucketisations, the chain of looks, and Table 7."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from benchmarks.paper.buckets import FINE, NAMES, SHARE, SNR, Buckets, workload
from benchmarks.paper.common_mechanism import PRINTED, table_7_row
from benchmarks.paper.tracts import BUCKETS, in_buckets, tracts
from residua.plans.verifier import priced

RHO = 1 / 8
CHOICE = Buckets(RHO)
PLANS = CHOICE.candidates()


def test_the_buckets_are_the_papers_and_each_refines_the_one_before():
    assert [len(BUCKETS[name]) for name in NAMES] == [1, 4, 9, 23]
    for coarse, fine in pairwise(NAMES):
        assert set(BUCKETS[coarse]) < set(BUCKETS[fine])


def test_the_three_common_mechanisms_are_nested_as_claimed():
    chain = CHOICE.looks()
    assert chain[1].can_answer(chain[0])
    assert chain[2].can_answer(chain[1])
    assert not chain[0].can_answer(chain[1])
    for k, look in enumerate(chain):
        assert all(plan.can_answer(look) for plan in list(PLANS.values())[k:])
    # Each look gives its buckets as accurately as the finest candidate would: so many buckets, so many variances.
    noise = 1 / (2 * RHO)
    fine_buckets = ([23], [4, 8, 5, 6], [1, 3, 4, 2, 2, 2, 3, 3, 3])
    for name, look, counts in zip(NAMES, chain, fine_buckets, strict=False):
        assert look.variances(workload(name)) == pytest.approx(noise * np.array(counts * 2), rel=1e-6)
    assert [look.pcost / (2 * RHO) for look in chain] == pytest.approx([1 / 23, 1 / 4, 1], rel=1e-6)
    assert CHOICE.saved() == pytest.approx([1 / 23, 1 / 4, 1], rel=1e-3)
    assert CHOICE.saved(youngest=False)[2] == pytest.approx(1 / 2, rel=1e-3)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_the_chain_is_walked_through_the_real_door_at_the_price_of_the_choice(tmp_path, steps):
    rng = np.random.default_rng(7)
    people = in_buckets(tracts(1, rng), FINE).reshape(46)
    codes = np.arange(46)
    rows = {"gender": np.array(["Female", "Male"])[codes // 23], "age": np.array([str(a) for a in FINE])[codes % 23]}
    data = rs.Source.frame(pa.table({**rows, "n": people}), counts="n")
    session = rs.Session(data, rs.ZCDP(RHO), ledger=tmp_path / "a.ledger")
    choice, chain = session.choose(PLANS), CHOICE.looks()
    for k in range(steps):
        # The look so far has cost the common mechanism, to the rounding of its integers; it never costs more.
        assert float(session.ledger.spent_exactly) == pytest.approx(chain[k].pcost, rel=1e-6)
        choice = choice.step()
    chosen = next(iter(choice.candidates))
    release = choice.finish(chosen)
    assert session.ledger.spent_exactly == priced(PLANS[chosen])[1]
    answers = release.answers(PLANS[chosen].workload).columns
    assert answers["stddev"] ** 2 == pytest.approx(PLANS[chosen].variances(PLANS[chosen].workload), rel=1e-6)
    truth = PLANS[chosen].workload.matrix @ people
    assert (abs(answers["estimate"] - truth) < 6 * answers["stddev"]).all()


def test_the_choices_on_synthetic_tracts_are_like_those_of_table_7():
    rng = np.random.default_rng(2023)
    people = in_buckets(tracts(6_000, rng), FINE).reshape(-1, 46)
    for inverse, printed in zip(PRINTED["table_7"]["rho_inverse"], PRINTED["table_7"]["rows"], strict=True):
        ours, single = table_7_row(people, 1 / inverse, gender=True)
        assert ours[:4] == pytest.approx(printed[:4], abs=8)  # tracts are synthetic
        assert ours[4] == pytest.approx(printed[4], abs=1.5)
        # The looks know more than any population count, even an exact one with thresholds learned from the truth.
        if inverse > 8:
            assert ours[4] > single


def test_the_program_judges_one_total_by_the_noise_of_eight_counts():
    """As the authors' program has it, and not the text: k = 8 for Total, and 2, 3, 2, 2 for Age4."""
    one = Buckets(RHO, gender=False)
    noise = 1 / (2 * RHO)
    total, age4, _ = one.stddevs()
    assert total**2 == pytest.approx([8 * noise])
    assert age4**2 == pytest.approx(noise * np.array([2, 3, 2, 2] * 2))
    assert one.looks()[0].variances(one.asked("Total")) == pytest.approx([46 * noise], rel=1e-6)


def test_a_session_recommends_by_the_same_rule(tmp_path):
    rng = np.random.default_rng(11)
    people = in_buckets(tracts(1, rng), FINE).reshape(46)
    codes = np.arange(46)
    rows = {"gender": np.array(["Female", "Male"])[codes // 23], "age": np.array([str(a) for a in FINE])[codes % 23]}
    data = rs.Source.frame(pa.table({**rows, "n": people}), counts="n")
    session = rs.Session(data, rs.ZCDP(RHO), ledger=tmp_path / "a.ledger")
    choice = session.choose(PLANS)
    for k in range(3):
        estimates = choice.release.answers(workload(NAMES[k])).columns["estimate"]
        good = (estimates / np.sqrt(PLANS[NAMES[k + 1]].variances(workload(NAMES[k]))) >= SNR).mean() >= SHARE
        found = choice.recommend(share=SHARE, snr=SNR)
        if not good:
            assert found.action in ("finish", "stop")
            return
        assert (found.action, found.candidate) == (("step", None) if k < 2 else ("finish", "Age23"))
        if k < 2:
            choice = choice.step()
