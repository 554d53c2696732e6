"""Random small domains, workloads and plans for the laws, and what the verifier says of measurements."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

import residua as rs
from residua.linalg.lattice import closure
from residua.plans import ProductPlan
from residua.plans.measurements import Measurements

sizes_of_domains = st.lists(st.integers(1, 4), min_size=1, max_size=4).filter(lambda s: np.prod(s) <= 96)
positive = st.floats(1e-2, 1e2)


@st.composite
def domains(draw):
    return rs.Domain.of_sizes(draw(sizes_of_domains))


def subsets_of(d):
    return st.sets(st.integers(0, d - 1)).map(lambda s: tuple(sorted(s)))


@st.composite
def workloads(draw, domain=None):
    """One to five distinct attribute sets, in any order, each with a weight."""
    domain = draw(domains()) if domain is None else domain
    sets = draw(st.lists(subsets_of(len(domain)), min_size=1, max_size=5, unique=True))
    total = None
    for members in sets:
        names = draw(st.permutations([domain.names[i] for i in members]))
        term = rs.marginals(domain, [tuple(names)], weight=draw(positive))
        total = term if total is None else total + term
    return total


@st.composite
def plans(draw, domain=None, *, zeros=True):
    """Any precisions on any downward-closed family; some of them 0."""
    domain = draw(domains()) if domain is None else domain
    sets = draw(st.lists(subsets_of(len(domain)), min_size=1, max_size=4, unique=True))
    lattice = closure([np.array([s], dtype=np.int32).reshape(1, len(s)) for s in sets], len(domain))
    value = st.one_of(st.just(0.0), positive) if zeros else positive
    precisions = draw(st.lists(value, min_size=len(lattice), max_size=len(lattice)))
    return ProductPlan(domain, lattice, np.array(precisions))


@st.composite
def plans_of_one_domain(draw, count):
    domain = draw(domains())
    return [draw(plans(domain)) for _ in range(count)]


def verified_cost(measurements: Measurements, guarantee, unit) -> Fraction:
    """What measuring these blocks costs, by the verifier, which also refuses what the guarantee does not cover."""
    return measurements.noise.promised(measurements.price(unit), guarantee)
