"""Draws the house from its imports: python docs/draw_house.py

Rows are those of import-linter's contract in pyproject.toml. A line is an import of a lower room, as thick as
the modules that make it are many; what a way through rooms in between says as well is left out.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dragoman"
PICTURE = ROOT / "docs" / "pictures" / "house.svg"
WIDTH, ROW, BOX = 900, 62, 34
"""Pixels: of the picture, from row to row, and the height of a box."""


def rows() -> list[list[str]]:
    """Return the rooms of each row, the highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if "layers" in contract)
    return [[room.strip().removeprefix("dragoman.") for room in layer.split("|")] for layer in layers]


def imports() -> Counter[tuple[str, str]]:
    """Count the modules of each room that import from each other room."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        names = {module.split(".")[1] for module in modules if module.startswith("dragoman.")}
        counts.update((room, name) for name in names - {room})
    return counts


def direct(counts: Counter[tuple[str, str]], rooms: list[str]) -> dict[tuple[str, str], int]:
    """Return the imports that no way through other rooms says; `rooms` are in order, the highest first."""
    next_rooms = {room: {lower for upper, lower in counts if upper == room} & {*rooms} for room in rooms}
    reached: dict[str, set[str]] = {}
    for room in reversed(rooms):
        deeper = {far for lower in next_rooms[room] for far in reached[lower]}
        next_rooms[room] -= deeper
        reached[room] = next_rooms[room] | deeper
    return {(room, lower): counts[room, lower] for room in rooms for lower in sorted(next_rooms[room])}


def draw() -> str:
    """Return the picture as SVG."""
    places: dict[str, tuple[float, int, float]] = {}  # left, top and width of a room's box
    for number, row in enumerate(rows()):
        widths = [8.2 * len(room) + 26 for room in row]
        gap = (WIDTH - sum(widths)) / (len(row) + 1)
        for i, (room, width) in enumerate(zip(row, widths, strict=True)):
            places[room] = (gap * (i + 1) + sum(widths[:i]), 12 + ROW * number, width)
    lines, boxes = [], []
    for (upper, lower), n in direct(imports(), list(places)).items():
        (x, top, width), (x_to, end, width_to) = places[upper], places[lower]
        begin, x, x_to = top + BOX, round(x + width / 2), round(x_to + width_to / 2)
        middle = (begin + end) // 2
        curve = f"M{x} {begin} C{x} {middle} {x_to} {middle} {x_to} {end}"
        lines.append(f'<path d="{curve}" stroke-width="{min(1 + n / 4, 5):.2g}"/>')
    for room, (x, top, width) in places.items():
        boxes.append(f'<rect x="{x:.0f}" y="{top}" width="{width:.0f}" height="{BOX}" rx="6"/>')
        boxes.append(f'<text x="{x + width / 2:.0f}" y="{top + 22}">{room}</text>')
    height = 24 + ROW * (len(rows()) - 1) + BOX
    style = "rect {fill: #f4f1ea; stroke: #555} text {text-anchor: middle; font: 15px sans-serif}"
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    paper = f'<path d="M0 0H{WIDTH}V{height}H0Z" fill="#fff"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{paper}'
    return "\n".join([head, '<g fill="none" stroke="#9cc3d5">', *lines, "</g>", *boxes, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
