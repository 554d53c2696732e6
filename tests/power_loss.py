"""A disk that loses what was not synced: every state in which power loss may leave the folders of a world.

What POSIX promises is taken literally. The bytes of a file are on disk once it was synced; a name (made, moved, linked,
removed) once its folder was. Since then each file may be as it was at any moment, or torn (its beginning, then zeros),
and each change of a name may be there or not, in any combination: a rename is one change. The disk watches the calls of
the system that write, and after each of them says which states there are.

The worlds are those of `interleavings.py`. In each state the ledger must show no less than what had been learned until
then; and whatever is done with what is left, never less than what is learned in the end.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import residua as rs
from tests.interleavings import DOORS, World, patched, room

CALLS = ("fsync", "pwrite", "write", "ftruncate", "rename", "replace", "link", "unlink", "mkdir", "rmdir")
MOST = 64  # combinations of losses at one moment; of more, those with one loss, one survivor, all and none
Image = dict[str, bytes | None]  # relative path → content, None for a folder
Names = dict[str, int]  # name → inode


@dataclass
class Disk:
    """What a folder holds, and what of it is surely on disk.

    Args:
        root: the folder; all that is in it now is on disk.
    """

    root: Path
    folders: dict[int, Names] = field(default_factory=dict)  # as they are
    synced: dict[int, Names] = field(default_factory=dict)  # as they surely are on disk
    changes: dict[int, list[dict[str, int | None]]] = field(default_factory=dict)  # of names, since
    versions: dict[int, list[bytes]] = field(default_factory=dict)  # of files, since they were synced

    def __post_init__(self) -> None:
        self._look()
        self.synced = {inode: dict(names) for inode, names in self.folders.items()}
        self.changes = {}
        self.versions = {inode: held[-1:] for inode, held in self.versions.items()}

    def watching(self, name: str, then: Callable[[], None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """The call, noticed; `then` is called after it."""

        def wrapped(real: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **options: Any) -> Any:
                self._look()
                result = real(*args, **options)
                self._look(together=name in ("rename", "replace"))
                if name == "fsync":
                    self._sync(args[0])
                then()
                return result

            return called

        return wrapped

    def _sync(self, handle: int) -> None:
        at = os.fstat(handle)
        if stat.S_ISDIR(at.st_mode):
            self.synced[at.st_ino] = dict(self.folders.get(at.st_ino, {}))
            self.changes.pop(at.st_ino, None)
        else:
            self.versions[at.st_ino] = [Path(f"/proc/self/fd/{handle}").read_bytes()]

    def _look(self, *, together: bool = False) -> None:
        """Notes what is there now; changes of names are one change if they came together."""
        now: dict[int, Names] = {}
        for place, _, _ in os.walk(self.root):
            with os.scandir(place) as entries:
                listed = {entry.name: entry for entry in entries}
            now[Path(place).stat().st_ino] = {name: entry.inode() for name, entry in listed.items()}
            for entry in listed.values():
                if entry.is_file():
                    content, held = Path(entry.path).read_bytes(), self.versions.setdefault(entry.inode(), [b""])
                    if held[-1] != content:
                        held.append(content)
        for inode, names in now.items():
            before = self.folders.get(inode, {})
            changed = {name: names.get(name) for name in (*before, *names) if names.get(name) != before.get(name)}
            if changed:
                single = [changed] if together else [{name: to} for name, to in changed.items()]
                self.changes.setdefault(inode, []).extend(single)
        self.folders.update(now)

    def images(self) -> Iterator[Image]:
        """Every state in which the disk may be if power is lost now."""
        renamed = [(inode, place) for inode, ops in self.changes.items() for place in range(len(ops))]
        torn = {inode: _contents(held) for inode, held in self.versions.items() if len(held) > 1}
        choices: list[range] = [range(2) for _ in renamed] + [range(len(each)) for each in torn.values()]
        for chosen in _combinations(choices):
            kept = {change for change, there in zip(renamed, chosen, strict=False) if there}
            contents = {
                inode: each[which] for (inode, each), which in zip(torn.items(), chosen[len(renamed) :], strict=True)
            }
            image: Image = {}
            self._build(self.root.stat().st_ino, "", kept, contents, image, 0)
            yield image

    def _build(
        self, inode: int, path: str, kept: set[tuple[int, int]], contents: dict[int, bytes], image: Image, deep: int
    ) -> None:
        names: dict[str, int] = dict(self.synced.get(inode, {}))
        for place, change in enumerate(self.changes.get(inode, [])):
            if (inode, place) in kept:
                for name, to in change.items():
                    names.pop(name, None)
                    if to is not None:
                        names[name] = to
        for name, to in names.items():
            below = f"{path}{name}"
            if to in self.folders and deep < 9:
                image[below] = None
                self._build(to, f"{below}/", kept, contents, image, deep + 1)
            elif to in self.versions:
                image[below] = contents.get(to, self.versions[to][-1])


def _contents(held: list[bytes]) -> list[bytes]:
    """What a file may hold that was not synced: any state that it had, or the last one torn where it is new."""
    last = held[-1]
    pairs = enumerate(zip(held[0], last, strict=False))
    same = next((i for i, (old, new) in pairs if old != new), min(len(held[0]), len(last)))  # synced, and not written
    torn = [same + part * (len(last) - same) // 3 for part in (1, 2)]
    return [*dict.fromkeys([*held, *(last[:end] + bytes(len(last) - end) for end in torn)])]


def _combinations(choices: list[range]) -> Iterator[tuple[int, ...]]:
    number = 1
    for each in choices:
        number *= len(each)
    if number <= MOST:
        yield from itertools.product(*choices)
        return
    for base in (tuple(0 for _ in choices), tuple(len(each) - 1 for each in choices)):
        yield base
        for place, each in enumerate(choices):
            for other in each:
                if other != base[place]:
                    yield (*base[:place], other, *base[place + 1 :])


def losses(door: str, deed: str) -> Iterator[tuple[World, Image]]:
    """Every state in which power loss at any moment of a deed may leave its world, with what had been learned then."""
    with room() as folder:
        path = folder / "world"
        path.mkdir()
        world = DOORS[door](path)
        shutil.rmtree(path / "old", ignore_errors=True)
        disk, seen, found = Disk(path), set[bytes](), list[tuple[World, Image]]()

        def noted() -> None:
            world.learned()  # looks at what can be seen now
            knowledge = {name: value for name, value in vars(world).items() if name in ("costs", "seen", "measured")}
            for image in disk.images():
                known = hashlib.sha256(repr((sorted(image.items()), knowledge)).encode()).digest()
                if known not in seen:
                    seen.add(known)
                    found.append((_knowing(world), image))

        calls = [(os, name, disk.watching(name, noted)) for name in CALLS]
        with patched([(owner, name, change) for owner, name, change in calls]):
            world.act_alone("a", deed)
        noted()  # power may be lost after the end, too
        yield from found


def _knowing(world: World) -> World:
    """Another world that knows what this one has learned so far."""
    known = copy.copy(world)
    for name, value in vars(world).items():
        if name == "seen":
            known.seen = {key: set(values) for key, values in value.items()}  # type: ignore[attr-defined]
        elif name in ("measured", "outcomes"):
            setattr(known, name, copy.copy(value))
    return known


def run(world: World, image: Image, deed: str) -> Counter[str]:
    """Goes on from what power loss left; how that ended.

    Raises:
        AssertionError: the ledger shows less than what was learned.
    """
    with room() as folder:
        for name, content in image.items():
            path = folder / name
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        learned, world.path = world.learned(), folder
        spent = rs.Ledger(folder / "ledger").spent_exactly if (folder / "ledger").exists() else 0
        assert learned <= spent, f"after power loss: learned {float(learned)}, paid {float(spent)}"
        if spent == 0 and not (folder / "ledger").exists():
            return Counter({"no ledger": 1})
        (folder / "a").mkdir(exist_ok=True)
        world.outcomes = Counter()
        world.copy("a", "b")
        for who in "bab":
            world.do(who, deed)
        return world.outcomes
