// One topic: its partitions, its settings, what came of late.

import { element } from "./elements.js";
import { plot } from "./plot.js";
import { ask, bytes, count, link, notice, rate, settings, table, tiles } from "./screen.js";

const PARTITIONS = [["Partition", "number"], ["Leader", "number"], ["Replicas"], ["First offset", "number"], ["End", "number"], ["Records", "number"], ["Size", "number"], ["Epoch", "number"]];

export function tabs(name, current, life) {
  const at = `#/topics/${encodeURIComponent(name)}`;
  const all = [["Topic", at], ["Records", `${at}/records`], ...(life.about.read_only ? [] : [["Produce", `${at}/produce`]])];
  const items = all.map(([text, href]) => element("li", {}, link(href, text, { "aria-current": text === current ? "page" : null })));
  return element("ul", { class: "tabs", "aria-label": "Of this topic" }, ...items);
}

function replicas(each) {
  return each.replicas.map((broker) => {
    const inSync = each.isr.includes(broker);
    const kind = broker === each.leader ? " leads" : inSync ? "" : " behind";
    return element("span", { class: `replica${kind}`, title: broker === each.leader ? "leads" : inSync ? "in sync" : "not in sync" }, broker);
  });
}

function partitionRow(each) {
  const leader = each.leader < 0
    ? element("span", { class: "bad-text" }, "none")
    : each.is_silent ? element("span", { class: "warn-text", title: "It does not answer." }, `${each.leader}, silent`) : each.leader;
  const records = each.end_offset === null ? null : each.end_offset - each.start_offset;
  return [each.partition, leader, replicas(each), count(each.start_offset), count(each.end_offset), count(records), bytes(each.bytes), count(each.leader_epoch)];
}

export function show(main, life, name) {
  const plots = [plot("Records written/s", ["records_per_s"], rate), plot("On disk, all replicas", ["bytes"], bytes)];
  const facts = element("div");
  const partitions = element("div");
  const set = element("section", { "aria-label": "Settings" });
  main.append(
    element("h1", {}, name),
    tabs(name, "Topic", life),
    facts,
    element("div", { class: "plots" }, ...plots),
    element("h2", {}, "Partitions"),
    partitions,
    element("p", { class: "faint" }, "Underlined: the leader. Struck through: not in sync. Records counts offsets; compaction and transactions leave gaps."),
    element("h2", {}, "Settings"),
    set,
  );
  life.every(1000, async () => {
    const found = await life.run(() => ask(`topics/${encodeURIComponent(name)}`, { without_settings: set.children.length > 0 }, life.signal));
    if (!found) return;
    const records = found.partition_list.reduce((sum, each) => sum + ((each.end_offset ?? 0) - (each.start_offset ?? 0)), 0);
    facts.replaceChildren(...(found.offsets_problem ? [notice(found.offsets_problem)] : []), tiles([
      ["Partitions", count(found.partitions)],
      ["Replicas", count(found.replicas)],
      ["Records", count(records)],
      ["Records/s", rate(found.records_per_s)],
      ["On disk", bytes(found.bytes)],
      ["Offline", count(found.offline), found.offline ? "bad" : ""],
      ["Under-replicated", count(found.under_replicated), found.under_replicated ? "warn" : ""],
    ]), element("p", { class: "faint" }, `Id ${found.topic_id || "none"}${found.is_internal ? ", internal" : ""}`));
    for (const each of plots) each.show(found.history);
    partitions.replaceChildren(table(PARTITIONS, found.partition_list.map(partitionRow)));
    if (!set.children.length) set.append(...(found.settings_problem ? [notice(found.settings_problem)] : settings(found.settings)));
  });
}
