// The list of changes: what was before and what is now, said in a line.

import { byId, element, plural } from "./elements.js";

const CHANGES_KEPT = 200;
const NAMED_CHANGES = 6; // more changes of one topic at once become one line

export function note(time_ms, text) {
  const time = new Date(time_ms);
  const clock = `${time.toLocaleTimeString([], { hour12: false })}.${String(time.getMilliseconds()).padStart(3, "0")}`;
  const list = byId("changes");
  list.prepend(element("li", {}, element("time", { datetime: time.toISOString() }, clock), element("span", {}, text)));
  while (list.children.length > CHANGES_KEPT) list.lastElementChild.remove();
  byId("no-changes").hidden = true;
}

function describe(before, now) {
  const leaderOf = ({ leader }) => (leader < 0 ? "none" : leader);
  const said = [];
  if (before.leader !== now.leader) said.push(`leader ${leaderOf(before)} → ${leaderOf(now)}`);
  if (before.isr.join() !== now.isr.join()) said.push(`ISR ${before.isr.join(",") || "empty"} → ${now.isr.join(",") || "empty"}`);
  if (before.replicas.join() !== now.replicas.join()) said.push(`replicas ${before.replicas.join(",")} → ${now.replicas.join(",")}`);
  return said.join(", ");
}

export function noteTopic(time_ms, name, before, now) {
  if (!before || before.id !== now.id) {
    note(time_ms, `${name}: new topic, ${plural(Object.keys(now.partitions).length, "partition")}`);
    return;
  }
  const said = [];
  for (const [number, partition] of Object.entries(now.partitions)) {
    const old = before.partitions[number];
    const what = old ? describe(old, partition) : "new partition";
    if (what) said.push(`${name}-${number}: ${what}`);
  }
  if (said.length <= NAMED_CHANGES) for (const line of said) note(time_ms, line);
  else note(time_ms, `${name}: ${said.length} partitions changed, such as ${said[0]}`);
}

export function noteBrokers(time_ms, before, now) {
  for (const [id, broker] of Object.entries(now)) {
    if (broker.alive !== Boolean(before[id]?.alive)) note(time_ms, `broker ${id} ${broker.alive ? "came" : "is gone"}`);
  }
}

export function noteController(time_ms, before, now) {
  if (before.id !== now.id) note(time_ms, `controller ${before.id < 0 ? "none" : before.id} → ${now.id < 0 ? "none" : now.id}`);
}
