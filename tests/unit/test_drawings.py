"""The documentation's drawings are what is drawn of today's facts, and can be read in both themes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from deploy.docs.drawings import facts
from deploy.docs.drawings.__main__ import DRAWN, PICTURES, find_stale
from deploy.docs.drawings.svg import DARK, LIGHT, WIDTH, color, site_style

SVG = "{http://www.w3.org/2000/svg}"


def luminance(value: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = (int(value[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_no_drawing_is_out_of_date() -> None:
    assert find_stale() == [], "python -m deploy.docs.drawings"
    assert {path.name for path in PICTURES.glob("*.svg")} >= set(DRAWN)


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_fits_a_phone_and_speaks_to_screen_readers(name: str) -> None:
    text = (PICTURES / name).read_text()
    root = ElementTree.fromstring(text)
    assert "\n\n" not in text and root.get("width") is None, "it takes the width that there is"
    assert float(root.get("viewBox", "").split()[2]) <= WIDTH
    assert root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc")
    assert min(float(each.get("font-size", "13")) for each in root.iter(f"{SVG}text")) >= 12
    plain = re.sub(r"<style>.*?</style>", "", text)
    assert not re.findall(r"#[0-9a-f]{3,6}|white|black", plain), "colours are names of the theme"


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_letters_stand_out_in_both_themes(theme: dict[str, str]) -> None:
    for letters in ("ink", "soft", "ours", "zookeeper", "bad"):
        for ground in ("paper", "box"):
            assert contrast(theme[letters], theme[ground]) >= 4.5, (letters, ground)
    assert contrast(theme["on-ours"], theme["ours"]) >= 4.5
    assert contrast(theme["ink"], theme["pale"]) >= 4.5


def test_both_themes_have_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert all(f"--picture-{name}:{value};" in site_style() for theme in (LIGHT, DARK) for name, value in theme.items())
    with pytest.raises(KeyError):
        color("mauve")


def test_pictures_of_both_themes_are_small() -> None:
    light = sorted(PICTURES.glob("*-light.webp"))
    assert light and [each.name.replace("-light.", "-dark.") for each in light] == [
        each.name for each in sorted(PICTURES.glob("*-dark.webp"))
    ]
    assert max(each.stat().st_size for each in PICTURES.iterdir()) < 100_000


def test_what_a_page_does_not_have_is_not_drawn() -> None:
    page = "| A | B |\n|---|---|\n| 1 | 2 (1 to 3) |\n"
    assert facts.rows_of(page, "A", "B") == [{"A": "1", "B": "2 (1 to 3)"}]
    with pytest.raises(facts.MissingFact, match="the columns A, C"):
        facts.rows_of(page, "A", "C")
