"""Draws docs/architecture.svg: the layers of the import contract, and every import that there really is.

Run by `bash scripts/docs`. The layers are read from pyproject.toml, the imports from the sources (lazy and type-only
ones count). A test compares the committed picture with what this makes.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import grimp

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
ROW, COLUMN, LEFT, TOP, GAP = 20, 22, 110, 64, 56  # pixels
DARK, BLUE, PALE, LINE = "#24292f", "#0969da", "#f0f3f6", "#d0d7de"
FONT = "font-family='sans-serif'"


@dataclass(frozen=True)
class Contract:
    """One contract of layers: what may import what.

    Args:
        name: what the contract says.
        layers: full names of packages and modules, layer by layer, the highest first.
    """

    name: str
    layers: tuple[tuple[str, ...], ...]

    @property
    def members(self) -> list[str]:
        """All packages and modules, the highest first."""
        return [member for layer in self.layers for member in layer]


def contracts(settings: dict[str, Any]) -> list[Contract]:
    """The contracts of layers in the settings of import-linter."""
    contracts = []
    for contract in settings["contracts"]:
        if contract["type"] != "layers":
            continue
        prefix = f"{contract['containers'][0]}." if "containers" in contract else ""
        layers = (
            tuple(prefix + member.strip() for member in layer.replace(":", "|").split("|"))
            for layer in contract["layers"]
        )
        contracts.append(Contract(contract["name"], tuple(layers)))
    return contracts


def imports(graph: grimp.ImportGraph, members: list[str]) -> set[tuple[str, str]]:
    """Which member imports which, by any of its modules."""
    home = {module: member for member in members for module in (member, *graph.find_descendants(member))}
    return {
        (home[module], home[other])
        for module in home
        for other in graph.find_modules_directly_imported_by(module)
        if other in home and home[other] != home[module]
    }


def picture(drawn: list[tuple[Contract, set[tuple[str, str]]]]) -> str:
    """The whole picture, one contract beside the other."""
    parts, x = [], 0
    for contract, pairs in drawn:
        parts += panel(contract, pairs, x)
        x += LEFT + COLUMN * len(contract.members) + GAP
    height = TOP + ROW * max(len(contract.members) for contract, _ in drawn) + 16
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {x - GAP} {height}' {FONT} font-size='12'>"
    return "\n".join([head, f"<rect width='{x - GAP}' height='{height}' fill='white'/>", *parts, "</svg>", ""])


def panel(contract: Contract, pairs: set[tuple[str, str]], x: int) -> list[str]:
    """One contract: a row per member, its square on the diagonal, a dot above each member that it imports."""
    members = contract.members
    right = x + LEFT + COLUMN * len(members)
    parts = [
        text(x + 8, 22, contract.name, "start", "bold"),
        text(x + 8, 44, "a dot: the row imports what stands below the dot; a band: a layer", "start"),
    ]
    row = 0
    for number, layer in enumerate(contract.layers):
        if number % 2 == 0:
            size = f"width='{right - x}' height='{ROW * len(layer)}'"
            parts.append(f"<rect x='{x}' y='{TOP + ROW * row}' {size} fill='{PALE}'/>")
        row += len(layer)
    centre = {name: (x + LEFT + COLUMN * i + COLUMN // 2, TOP + ROW * i + ROW // 2) for i, name in enumerate(members)}
    for name in members:
        across, down = centre[name]
        above = [centre[other][1] for other, imported in pairs if imported == name]
        beside = [centre[imported][0] for other, imported in pairs if other == name]
        if above:
            parts.append(f"<path d='M{across} {min(above)}V{down}' stroke='{LINE}'/>")
        if beside:
            parts.append(f"<path d='M{across} {down}H{max(beside)}' stroke='{LINE}'/>")
    for name in members:
        across, down = centre[name]
        parts.append(f"<rect x='{across - 5}' y='{down - 5}' width='10' height='10' fill='{DARK}'/>")
        parts.append(text(across - 11, down + 4, name.rpartition(".")[2], "end"))
    for other, name in sorted(pairs, key=lambda pair: (members.index(pair[0]), members.index(pair[1]))):
        tip = f"{other} imports {name}"
        at = f"cx='{centre[name][0]}' cy='{centre[other][1]}'"
        parts.append(f"<circle {at} r='4' fill='{BLUE}'><title>{tip}</title></circle>")
    return parts


def text(x: int, y: int, words: str, anchor: str, weight: str = "normal") -> str:
    """One line of text."""
    place = f"x='{x}' y='{y}' text-anchor='{anchor}'"
    return f"<text {place} font-weight='{weight}' fill='{DARK}'>{escape(words)}</text>"


def drawn() -> str:
    """The picture of the tree as it is."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    graph = grimp.build_graph(settings["root_package"], cache_dir=None)
    return picture([(contract, imports(graph, contract.members)) for contract in contracts(settings)])


if __name__ == "__main__":
    PICTURE.write_text(drawn())
