"""Synthetic census tracts: how many people of each age and gender live in each, with realistic sizes and profiles.

Populations are log-normal with the mean (about 4,250) and spread of the 73,426 tracts of the 2010 census; one tract in
two hundred is nearly empty (water, parks, prisons). A tract's ages are a mixture of four archetypes, in proportions
that vary from tract to tract: the whole country's pyramid, young families, students, and retirement. Women outlive men.
"""

import numpy as np

AGES = 103  # 0 … 102, as in the table PCT12
BUCKETS = {
    "Total": [0],
    "Age4": [0, 18, 45, 65],
    "Age9": [0, 5, 18, 25, 35, 45, 55, 65, 75],
    "Age23": [0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85],
}


def tracts(count: int, rng: np.random.Generator) -> np.ndarray:
    """Counts of people, (tracts, 2 genders, 103 ages)."""
    population = rng.lognormal(np.log(3870), 0.436, count)
    empty = rng.random(count) < 0.005
    population[empty] = rng.lognormal(np.log(40), 1.5, int(empty.sum()))
    people = rng.poisson(population)
    shares = rng.dirichlet([14.0, 4.0, 1.0, 2.0], count)
    profile = shares @ _archetypes()
    women = 0.488 + 0.02 * rng.standard_normal((count, 1)) + 0.17 / (1 + np.exp(-(np.arange(AGES) - 82) / 6))
    cells = np.stack([profile * women, profile * (1 - women)], axis=1).reshape(count, -1)
    cells /= cells.sum(axis=1, keepdims=True)
    return rng.multinomial(people, cells).reshape(count, 2, AGES)


def in_buckets(people: np.ndarray, starts: list[int]) -> np.ndarray:
    """Counts by gender and bucket, (tracts, 2, buckets)."""
    return np.add.reduceat(people, starts, axis=-1)


def bucket_matrix(starts: list[int], cells: list[int]) -> np.ndarray:
    """Which of the finest buckets make up each bucket, per gender, (buckets, cells)."""
    ends = [*starts[1:], AGES]
    return np.array([[float(a <= c < b) for c in cells] for a, b in zip(starts, ends, strict=True)])


def _archetypes() -> np.ndarray:
    """Age distributions, (4, ages), each adding up to 1."""
    a = np.arange(AGES)
    country = (1 + 0.15 * np.exp(-(((a - 50) / 8) ** 2))) / (1 + np.exp((a - 72) / 8))
    families = np.exp(-(((a - 7) / 7) ** 2)) + 0.9 * np.exp(-(((a - 37) / 9) ** 2)) + 0.05 * country
    students = np.exp(-(((a - 20.5) / 2.2) ** 2)) + 0.02 * country
    retired = np.exp(-(((a - 71) / 10) ** 2)) + 0.05 * country
    rows = np.stack([country, families, students, retired])
    return rows / rows.sum(axis=1, keepdims=True)
