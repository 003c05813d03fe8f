"""Settings that are replaced while parts hold them."""

from __future__ import annotations

from kafkalite.config.live import Live


def test_who_holds_the_settings_reads_the_new_ones_and_who_subscribed_hears_of_both() -> None:
    live, heard = Live(1), list[object]()
    live.subscribe(lambda before, after: heard.append((before, after, live.current)))
    live.subscribe(lambda before, after: heard.append("second"))
    live.replace(2)
    assert live.current == 2
    assert heard == [(1, 2, 2), "second"]
