"""Pictures as SVG that read in light and dark, on a phone and on a desk.

A picture is some 480 units wide, with letters of 13 units and more: a phone shows it at three quarters. Colours are names. On its own (a
forge, a file) a picture brings their values for both themes; within the site it takes those of the page, so it follows the page's switch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import escape

WIDTH: Final = 480
LIGHT: Final = {
    "ink": "#1f2328",
    "soft": "#57606a",
    "line": "#c3cad2",
    "paper": "#ffffff",
    "box": "#f3f6f9",
    "ours": "#0b7a6b",
    "pale": "#d3eee8",
    "zookeeper": "#9a5b00",
    "other": "#8a94a0",
    "bad": "#c0312f",
    "on-ours": "#ffffff",
}
DARK: Final = {
    "ink": "#e6edf3",
    "soft": "#a3adb8",
    "line": "#48515b",
    "paper": "#131416",
    "box": "#1d2228",
    "ours": "#43c3ad",
    "pale": "#1d443e",
    "zookeeper": "#e2a652",
    "other": "#76808b",
    "bad": "#ff7b72",
    "on-ours": "#06231f",
}
FONT: Final = "-apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"
MONO: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace"


def color(name: str) -> str:
    """Return the value of an attribute that takes a colour. Raises KeyError for a name that no theme has."""
    assert LIGHT[name] and DARK[name]
    return f"var(--picture-{name})"


def theme(colors: dict[str, str]) -> str:
    """Return declarations of CSS that give the colours their values."""
    return "".join(f"--picture-{name}:{value};" for name, value in colors.items())


def own_style() -> str:
    """Return the rules by which a picture that stands alone follows the theme of the reader's system."""
    return f"svg:root{{{theme(LIGHT)}}}@media (prefers-color-scheme:dark){{svg:root{{{theme(DARK)}}}}}"


def site_style() -> str:
    """Return the style sheet by which pictures within a page follow furo's switch between light and dark."""
    dark = theme(DARK)
    return (
        f"body{{{theme(LIGHT)}}}\n"
        f"body[data-theme=dark]{{{dark}}}\n"
        f"@media (prefers-color-scheme:dark){{body:not([data-theme=light]){{{dark}}}}}\n"
    )


def document(
    height: float, parts: Iterable[str], *, title: str, description: str, width: float = WIDTH, style: str = ""
) -> str:
    """Return a whole picture. `title` and `description` are what a screen reader says."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" font-family="{FONT}" font-size="13">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            f"<style>{own_style()}{style}</style>",
            f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{color("paper")}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def text(
    x: float,
    y: float,
    content: str,
    *,
    fill: str = "ink",
    size: float = 13,
    anchor: str = "start",
    bold: bool = False,
    mono: bool = False,
) -> str:
    weight = ' font-weight="600"' if bold else ""
    family = f' font-family="{MONO}"' if mono else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" fill="{color(fill)}"{weight}{family}>'
        f"{escape(content)}</text>"
    )


def rect(
    x: float, y: float, width: float, height: float, *, fill: str = "box", stroke: str | None = None, radius: float = 6
) -> str:
    border = f' stroke="{color(stroke)}" stroke-width="1.5"' if stroke else ""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" fill="{color(fill)}"{border}/>'


def line(
    x1: float, y1: float, x2: float, y2: float, *, stroke: str = "line", width: float = 1.5, dashed: bool = False
) -> str:
    dashes = ' stroke-dasharray="4 4"' if dashed else ""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color(stroke)}" stroke-width="{width:g}"{dashes}/>'


def arrow(x1: float, y1: float, x2: float, y2: float, *, stroke: str = "soft", both: bool = False) -> str:
    """Return a horizontal or vertical arrow from the first point to the second, with a second head where it goes both ways."""
    heads = [_head(x1, y1, x2, y2, stroke)] + ([_head(x2, y2, x1, y1, stroke)] if both else [])
    return "".join([line(x1, y1, x2, y2, stroke=stroke), *heads])


def _head(x1: float, y1: float, x2: float, y2: float, fill: str) -> str:
    length = max(abs(x2 - x1), abs(y2 - y1))
    along_x, along_y = (x2 - x1) / length, (y2 - y1) / length
    back_x, back_y = x2 - 8 * along_x, y2 - 8 * along_y
    corners = [(x2, y2), (back_x - 4 * along_y, back_y + 4 * along_x), (back_x + 4 * along_y, back_y - 4 * along_x)]
    points = " ".join(f"{x:g},{y:g}" for x, y in corners)
    return f'<polygon points="{points}" fill="{color(fill)}"/>'
