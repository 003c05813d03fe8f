"""The page of a night: one file with all that it needs, for people. It asks nobody for anything and has no program in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any, Final
from zoneinfo import ZoneInfo

from kafkalite.web import SHARED
from spark_jobs.batch.ledger import Entry
from spark_jobs.observation import charts
from spark_jobs.observation.charts import Bar, Segment
from spark_jobs.observation.journal import CHECK, DEAD_LETTERS, PLAN, PUBLISH, READ, SEND
from spark_jobs.observation.night_view import ARCHIVE, BAD, GOOD, WARN, NightView, TopicNight
from spark_jobs.observation.run_facts import Lateness, RunFacts, class_names

AUDIT: Final = "audit"
_STAGES: Final = (PLAN, READ, CHECK, DEAD_LETTERS, PUBLISH, SEND, AUDIT)
_SIGNS: Final = {GOOD: "✓", WARN: "!", BAD: "✕"}
_DIFFERENCES_SHOWN: Final = 50
_PARTITIONS_SHOWN: Final = 200
_DATES_SHOWN: Final = 10
_UTC: Final = ZoneInfo("UTC")


def write_page(night: NightView) -> str:
    """Return the page."""
    theme, style = SHARED["/theme.css"].read().decode(), (files(__package__) / "page.css").read_text("utf-8")
    title = f"Night of {night.day:%-d %B %Y}"
    body = "".join(
        (_header(night), *(_topic(each, number) for number, each in enumerate(night.topics)), _footer(night))
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f'<link rel="icon" href="data:,"><title>{title}</title><style>{theme}{style}</style></head>'
        f"<body><main>{body}</main></body></html>\n"
    )


def _header(night: NightView) -> str:
    items = "".join(_topic_findings(night, level) for level in (BAD, WARN))
    if night.problem:
        items = f'<li class="{BAD}" data-sign="{_SIGNS[BAD]}">{escape(night.problem)}</li>{items}'
    return (
        f'<header><p class="eyebrow">Night report</p><h1>{night.day:%A, %-d %B %Y}</h1>'
        f'<p class="where">{escape(night.output)}</p></header>'
        f'<section class="verdict {night.level}" aria-label="Result"><p data-sign="{_SIGNS[night.level]}">{_verdict(night)}</p>'
        f"<ul>{items}</ul></section>"
    )


def _topic_findings(night: NightView, level: str) -> str:
    """Return a line for each topic whose worst findings have this level, with all findings that are not good."""
    lines = []
    for number, topic in enumerate(night.topics):
        found = [each for each in topic.findings() if each.level != GOOD]
        if found and found[0].level == level:
            text = escape("; ".join(each.text for each in found))
            lines.append(
                f'<li class="{level}" data-sign="{_SIGNS[level]}"><a href="#topic-{number + 1}">{escape(topic.topic)}</a>: {text}</li>'
            )
    return "".join(lines)


def _verdict(night: NightView) -> str:
    if not night.topics:
        return "The ledger has nothing of this night."
    done = sum(topic.archived is not None for topic in night.topics)
    records = sum(entry.counts.get("records", 0) for topic in night.topics if (entry := topic.archived) is not None)
    what = "the topic is" if len(night.topics) == 1 else f"all {len(night.topics)} topics are"
    if done < len(night.topics):
        what = f"{done} of {len(night.topics)} topics {'is' if done == 1 else 'are'}"
    agree = all(topic.audit is not None and not topic.audit["differences"] for topic in night.topics)
    tail = "; log and archive agree." if done == len(night.topics) and agree else "."
    return f"{records:,} records, {what} archived{tail}"


def _footer(night: NightView) -> str:
    return (
        f"<footer><p>Made {_time(night.made_ms, _UTC)} from the ledger; <code>kafkalite spark report {night.day}</code> makes it "
        "again. Records of the day are those with a timestamp of the day.</p></footer>"
    )


def _topic(topic: TopicNight, number: int) -> str:
    badges = "".join(
        f'<li class="{each.level}" data-sign="{_SIGNS[each.level]}">{escape(each.text)}</li>'
        for each in topic.findings()
    )
    return (
        f'<section class="topic" id="topic-{number + 1}"><h2>{escape(topic.topic)}</h2><ul class="findings">{badges}</ul>'
        f'<div class="lead">{_figures(topic)}{_trend(topic)}</div>'
        f'{_hours_card(topic)}<div class="cards">{"".join(_cards(topic))}</div>{_details(topic)}</section>'
    )


def _trend(topic: TopicNight) -> str:
    nights = sum(records is not None for _, records in topic.history)
    return charts.trend_chart(topic.history, topic.day) if nights > 1 else ""


def _figures(topic: TopicNight) -> str:
    found: list[tuple[str, str, str]] = []
    entry = topic.archived
    if entry is not None:
        records, usual = entry.counts.get("records", 0), topic.usual
        note = f"{abs(records / usual - 1):.0%} {'more' if records >= usual else 'less'} than usual" if usual else ""
        found.append(("Records", f"{records:,}", note))
        found.append(("Late", f"{entry.counts.get('late', 0):,}", "of earlier dates"))
        letters = topic.dead_letters.get(ARCHIVE, 0)
        whole = records + letters
        found.append(("Dead letters", f"{letters:,}", f"{letters / whole:.2%} of all" if letters and whole else ""))
        size = sum(unit.bytes for unit in entry.units)
        count = sum(len(unit.files) for unit in entry.units)
        found.append(("Files", charts.size(size), f"in {count:,} files" if count != 1 else "in one file"))
        if took_ms := _sum_stages(topic):
            done = _time(entry.done_ms, _zone(entry.facts)).partition(" ")[2]
            found.append(("Took", charts.duration(took_ms), f"done at {done}"))
    rows = "".join(
        f"<div{' class=first' if not number else ''}><dt>{name}</dt><dd>{value}<small>{escape(note)}</small></dd></div>"
        for number, (name, value, note) in enumerate(found)
    )
    return f'<dl class="figures">{rows}</dl>'


def _sum_stages(topic: TopicNight) -> int:
    return sum(segment.value_ms for _, segments in _stage_rows(topic) for segment in segments)


def _hours_card(topic: TopicNight) -> str:
    entry = topic.archived
    if entry is None:
        return ""
    if entry.facts is not None:
        return _card("Records by hour", _hours(topic, entry, entry.facts))
    text = "<p>The ledger has no hours and no durations of this run: an earlier version has written it.</p>"
    return _card("Records by hour", text)


def _cards(topic: TopicNight) -> Iterator[str]:
    entry = topic.archived
    if entry is not None and entry.facts is not None:
        yield _card("Lateness", _lateness(entry, entry.facts.lateness))
    if topic.done:
        yield _card("Dead letters", _dead_letters(topic))
    if rows := _stage_rows(topic):
        yield _card("Duration by stage", charts.stacked_bars(rows, _STAGES))
    yield _card("Audit", _audit(topic))


def _card(title: str, content: str) -> str:
    return f'<section class="card"><h3>{title}</h3>{content}</section>'


def _hours(topic: TopicNight, entry: Entry, facts: RunFacts) -> str:
    zone = _zone(facts)
    totals = {hour: sum(found.values()) for hour, found in facts.hours.items()}
    columns = [(hour, totals.get(hour, 0)) for hour in charts.hours_of_day(topic.day, zone)]
    if not any(totals.values()):
        return "<p>No records of this day.</p>"
    busiest = max(columns, key=lambda column: column[1])
    silent = [charts.hour_label(hour, zone) for hour, count in columns if not count]
    caption = f"Busiest at {charts.hour_label(busiest[0], zone)} with {busiest[1]:,} records"
    if silent:
        shown = ", ".join(silent[:6]) + (f" and {len(silent) - 6} more hours" if len(silent) > 6 else "")
        caption += f"; none at {shown}"
    caption += f" ({facts.zone})"
    chart = charts.column_chart([(charts.hour_label(hour, zone), count) for hour, count in columns], f"{caption}.")
    partitions = sorted({*entry.plan.coverage, *(p for found in facts.hours.values() for p in found)})
    by_partition = [sum(found.get(p, 0) for found in facts.hours.values()) for p in partitions]
    largest, total = max(by_partition), sum(by_partition)
    skew = ""
    if len(partitions) > 1 and largest > 2 * total / len(partitions):
        skew = f"<p>Partition {partitions[by_partition.index(largest)]} has {largest / total:.0%} of the records.</p>"
    return chart + skew + charts.heat_map(facts.hours, partitions, topic.day, zone)


def _lateness(entry: Entry, lateness: Lateness) -> str:
    total = sum(lateness.records)
    parts = []
    if not total:
        parts.append("<p>No records.</p>")
    elif lateness.records[0] == total:
        parts.append(f"<p>All {total:,} records came in order.</p>")
    else:
        parts.append(
            f"<p><b>{lateness.records[0] / total:.{1 if lateness.records[0] / total < 0.999 else 3}%}</b> of {total:,} records "
            f"came in order. The others were behind the newest one before them in their partition, by "
            f"{charts.duration(lateness.max_ms)} at most:</p>"
        )
        shown = _filled_classes(lateness)
        parts.append(charts.bar_list([Bar(class_names()[n], lateness.records[n]) for n in shown], "late"))
    by_date: dict[str, int] = {}
    for unit in entry.units:
        if unit.path.startswith(f"{ARCHIVE}/") and unit.date != str(entry.plan.date):
            by_date[unit.date] = by_date.get(unit.date, 0) + unit.rows
    if by_date:
        newest = sorted(by_date.items(), reverse=True)
        parts.append("<p>Records of earlier dates, archived under their own:</p>")
        parts.append(charts.bar_list([Bar(*each) for each in newest[:_DATES_SHOWN]], "late"))
        if rest := newest[_DATES_SHOWN:]:
            parts.append(f"<p>{sum(count for _, count in rest):,} more of {len(rest)} dates before.</p>")
    return "".join(parts)


def _filled_classes(lateness: Lateness) -> range:
    """Return the classes of late records from the first to the last that has any."""
    filled = [number for number, count in enumerate(lateness.records) if number and count]
    return range(filled[0], filled[-1] + 1)


def _dead_letters(topic: TopicNight) -> str:
    parts = []
    for job, entry in topic.done.items():
        count = entry.counts.get("dead_letters", 0)
        if not count:
            continue
        known = dict(entry.facts.dead_letters) if entry.facts is not None else {}
        if rest := count - sum(known.values()):
            known["reason not recorded"] = rest
        folders = sorted({unit.path for unit in entry.units if unit.path.startswith("dead_letters")})
        if len(topic.done) > 1:
            parts.append(f"<p>{escape(job)}</p>")
        parts.append(charts.bar_list([Bar(reason, number) for reason, number in known.items()], "dead"))
        parts += [f'<p class="faint"><code>{escape(folder)}</code></p>' for folder in folders[:3]]
    return "".join(parts) or "<p>None: every record could be decoded and has a date.</p>"


def _stage_rows(topic: TopicNight) -> list[tuple[str, list[Segment]]]:
    rows = []
    for job, entry in topic.done.items():
        stages = entry.facts.stages_ms if entry.facts is not None else {}
        if stages:
            rows.append((job, [Segment(name, stages[name]) for name in _STAGES if name in stages]))
    if topic.audit is not None and topic.audit.get("took_ms"):
        rows.append((AUDIT, [Segment(AUDIT, int(topic.audit["took_ms"]))]))
    return rows


def _audit(topic: TopicNight) -> str:
    audit = topic.audit
    if audit is None:
        return "<p>This night was not audited.</p>"
    when = f" It ended {_time(audit['audited_ms'], _UTC)}." if audit.get("audited_ms") else ""
    places = len(audit.get("hours", ()))
    differences: Sequence[Mapping[str, Any]] = audit["differences"]
    if not differences:
        text = (
            f"<p><b>Log and archive agree.</b> Number, offsets, times and fingerprint of {audit['records']:,} records were "
            f"compared in {places:,} hours of partitions.{when}</p>"
        )
        if pending := audit["pending"]:
            text += f"<p>{pending:,} late records came after the last run; the next one takes them.</p>"
        return text
    rows = "".join(
        f"<tr><td>{escape(_place(topic.topic, str(each['place'])))}</td><td>{escape(str(each['problem']))}</td></tr>"
        for each in differences[:_DIFFERENCES_SHOWN]
    )
    more = len(differences) - _DIFFERENCES_SHOWN
    return (
        f"<p><b>Log and archive differ in {len(differences):,} places.</b>{when}</p>"
        '<div class="scroll"><table class="plain"><thead><tr><th scope="col">Where</th><th scope="col">What</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>" + (f"<p>And {more:,} more.</p>" if more > 0 else "")
    )


def _place(topic: str, place: str) -> str:
    """Return a place of the audit without the topic, which the section is about."""
    where = place.removeprefix(f"{topic}-")
    return place if where == place else f"partition {where.replace(' ', ', ')}"


def _details(topic: TopicNight) -> str:
    entry = topic.archived
    if entry is None:
        return ""
    plan, zone = entry.plan, _zone(entry.facts)
    hours = entry.facts.hours.values() if entry.facts is not None else ()
    rows = []
    for partition, (start, end) in list(plan.ranges.items())[:_PARTITIONS_SHOWN]:
        archived = f"{sum(found.get(partition, 0) for found in hours):,}" if entry.facts is not None else "–"
        rows.append(
            f'<tr><th scope="row">{partition}</th><td class="number">{start:,}</td><td class="number">{end:,}</td>'
            f'<td class="number">{end - start:,}</td><td class="number">{archived}</td></tr>'
        )
    more = len(plan.ranges) - _PARTITIONS_SHOWN
    return (
        "<details><summary>What was read: offsets of each partition</summary>"
        f'<p class="faint">Planned {_time(entry.planned_ms, zone)}, done {_time(entry.done_ms, zone)}, attempt '
        f"<code>{escape(entry.attempt)}</code>. A range begins where the day can begin and ends at the log's end when the run "
        'was planned.</p><div class="scroll"><table class="plain"><thead><tr><th scope="col">Partition</th>'
        '<th scope="col" class="number">First offset</th><th scope="col" class="number">End</th>'
        '<th scope="col" class="number">Offsets</th><th scope="col" class="number">Records of the day</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        + (f'<p class="faint">And {more:,} partitions more.</p>' if more > 0 else "")
        + "</details>"
    )


def _zone(facts: RunFacts | None) -> ZoneInfo:
    """Return the zone of the facts; UTC where this machine does not know it."""
    try:
        return ZoneInfo(facts.zone) if facts is not None else _UTC
    except (KeyError, ValueError, OSError):
        return _UTC


def _time(unix_ms: int, zone: ZoneInfo) -> str:
    try:
        return datetime.fromtimestamp(unix_ms / 1000, UTC).astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")
    except (ValueError, OverflowError, OSError):
        return f"{unix_ms} ms"
