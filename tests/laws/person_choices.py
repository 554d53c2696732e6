"""The choice among a person's records in plain Python: what the compiled one must do, written apart from it."""

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

import residua as rs
from residua.linalg.lattice import closure, layout_of
from residua.source.bound import bound_of

WORD = 2**64 - 1
KEY = bytes(range(32))
DOMAIN = rs.Domain({"month": rs.Integers(1, 4), "sex": ["F", "M"], "answer": ["no", "yes", "unsure"]})
Record = tuple[int, ...]


def siphash(key: bytes, content: bytes, size: int = 8) -> bytes:
    """SipHash-2-4 of any bytes, 8 or 16 bytes long."""
    k0, k1 = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    v[1] ^= 0xEE if size == 16 else 0

    def turn(x: int, b: int) -> int:
        return (x << b | x >> (64 - b)) & WORD

    def rounds(n: int) -> None:
        for _ in range(n):
            v[0] = (v[0] + v[1]) & WORD
            v[2] = (v[2] + v[3]) & WORD
            v[1], v[3] = turn(v[1], 13) ^ v[0], turn(v[3], 16) ^ v[2]
            v[0] = (turn(v[0], 32) + v[3]) & WORD
            v[2] = (v[2] + v[1]) & WORD
            v[1], v[3] = turn(v[1], 17) ^ v[2], turn(v[3], 21) ^ v[0]
            v[2] = turn(v[2], 32)

    whole = len(content) // 8 * 8
    words = [content[i : i + 8] for i in range(0, whole, 8)]
    words.append(content[whole:].ljust(7, b"\0") + bytes([len(content) % 256]))
    for word in words:
        m = int.from_bytes(word, "little")
        v[3] ^= m
        rounds(2)
        v[0] ^= m
    v[2] ^= 0xEE if size == 16 else 0xFF
    rounds(4)
    out = (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    if size == 8:
        return out
    v[1] ^= 0xDD
    rounds(4)
    return out + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")


def chosen_plainly(person: str, records: Iterable[Record], unit: rs.Person, key: bytes = KEY) -> Counter[Record]:
    """Which records of one person are counted, of the domain above, whose codes fit one word."""
    whose = siphash(key[:16], person.encode(), 16)
    candidates, seen = [], Counter()
    for record in records:
        packed, factor = 0, 1
        for name in sorted(DOMAIN.names):
            packed += record[DOMAIN.position(name)] * factor
            factor *= DOMAIN[name].size
        content = whose + packed.to_bytes(8, "little") + seen[record].to_bytes(8, "little")
        seen[record] += 1
        candidates.append((int.from_bytes(siphash(key[16:], content), "little"), packed, record))
    taken, used = Counter(), Counter()
    for _, _, record in sorted(candidates):
        values = [(name, record[DOMAIN.position(name)]) for name in unit.limits]
        if taken.total() < unit.records and all(used[value] < unit.limits[value[0]] for value in values):
            taken[record] += 1
            used.update(values)
    return taken


def everyone_plainly(people: Mapping[str, Iterable[Record]], unit: rs.Person) -> Counter[Record]:
    """What is counted of all of them."""
    return sum((chosen_plainly(person, records, unit) for person, records in people.items()), Counter())


def layout():
    """The table of everything."""
    lattice = closure([np.array([[0, 1, 2]], dtype=np.int32)], 3)
    return layout_of(lattice, DOMAIN.sizes, lattice.is_maximal)


def counted(source: rs.Source, unit: rs.Person, key: bytes = KEY) -> Counter[Record]:
    """What a source counts, cell by cell."""
    tables = source.count(DOMAIN, layout(), None, bound_of(unit, DOMAIN, key)).tables.reshape(tuple(DOMAIN.sizes))
    return Counter({tuple(map(int, cell)): int(tables[tuple(cell)]) for cell in np.argwhere(tables)})
