// What the nightly jobs on Spark have done.

import { element } from "./elements.js";
import { ask, bytes, count, notice, table, topicLink } from "./screen.js";

const COLUMNS = [["Date", "nowrap"], ["Job"], ["Topic", "wrap"], ["State"], ["Records", "number"], ["Late", "number"], ["Dead letters", "number"], ["Files", "number"], ["Bytes", "number"], ["Done", "nowrap"]];

function draw(each) {
  const level = { done: "good-text", missing: "bad-text" }[each.state] ?? "warn-text";
  return [
    each.date, each.job, topicLink(each.topic), element("span", { class: level }, each.state), count(each.records),
    count(each.late), element("span", { class: each.dead_letters ? "warn-text" : null }, count(each.dead_letters)), count(each.files), bytes(each.bytes), each.done_at,
  ];
}

export async function show(main, life) {
  main.append(element("h1", {}, "Spark jobs"), element("p", { class: "faint" }, "The ledger of the batch jobs on Spark: what was archived, reprocessed, compacted, and which dates are missing."));
  const found = await life.run(() => ask("nights", {}, life.signal));
  if (!found) return;
  if (found.problem) main.append(notice(found.problem));
  else if (!found.rows.length) main.append(element("p", { class: "faint" }, "The ledger is empty."));
  else main.append(table(COLUMNS, [...found.rows].sort((a, b) => (a.date < b.date ? 1 : a.date > b.date ? -1 : a.job.localeCompare(b.job))).map(draw)));
}
