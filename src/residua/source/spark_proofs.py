"""Proofs of what partial tables count on Spark: they travel with them, and add up to the records of one reading.

Spark may read some of the data again, when an executor is lost; if the data changed meanwhile, some tables would count
other records than the rest. A proof is JSON: the digest of the records counted, as numbers that add up; or, under a
bound on persons, how many buckets of persons were counted, by the fingerprint of the data that each of them saw.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from residua.source.digest import Digest

BUCKETS = 256  # of persons; each is gathered and chosen among alone
APART = BUCKETS  # the bucket of records without a person that count as persons of their own
Parts = tuple[int, int, int]  # of a digest: the number of records, and two sums


def proof_of_records(parts: Parts) -> bytes:
    """The proof of a table that counts the records of a digest."""
    return json.dumps(parts).encode()


def proof_of_buckets(seen: Counter[str]) -> bytes:
    """The proof of a table that counts buckets: how many, by the fingerprint of the data they saw."""
    return json.dumps(seen).encode()


def merged(proofs: Sequence[bytes]) -> bytes:
    """The proof of the sum of tables."""
    plain = [json.loads(proof) for proof in proofs]
    if any(isinstance(each, dict) for each in plain):
        return proof_of_buckets(sum((Counter(each) for each in plain), Counter()))
    digest = Digest()
    for parts in plain:
        digest.merge(tuple(parts))
    return proof_of_records(digest.parts)


def proven(proofs: Sequence[bytes], *, bounded: bool) -> str | None:
    """The fingerprint of the records that tables count together; nothing where they are not those of one reading."""
    found = json.loads(merged(proofs))
    if not bounded:
        digest = Digest()
        digest.merge(tuple(found))
        return digest.fingerprint
    seen = dict(found) if isinstance(found, dict) else {}
    return next(iter(seen)) if list(seen.values()) == [BUCKETS + 1] else None
