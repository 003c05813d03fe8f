// One topic: its partitions, its settings, what came of late.

import { action, linesField, textField } from "./action.js";
import { element, plural, setText } from "./elements.js";
import { plot } from "./plot.js";
import { ask, bytes, count, groupLink, link, notice, ONLY_READS, rate, settings, table, tiles } from "./screen.js";

const PARTITIONS = [["Partition", "number"], ["Leader", "number"], ["Replicas"], ["First offset", "number"], ["End", "number"], ["Records", "number"], ["Size", "number"], ["Epoch", "number"]];

export function tabs(name, current, life) {
  const at = `#/topics/${encodeURIComponent(name)}`;
  const all = [["Topic", at], ["Records", `${at}/records`], ["Groups", `${at}/groups`], ...(life.about.read_only ? [] : [["Produce", `${at}/produce`], ["Change", `${at}/change`]])];
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

// One line about the topic as it is, for screens on which it is changed or written.
export function factLine(life, name) {
  const line = element("p", { class: "faint" });
  life.every(1000, async () => {
    const found = await life.run(() => ask("topics", { name }, life.signal));
    if (!found) return;
    const [topic] = found.rows;
    setText(line, topic ? `${plural(topic.partitions, "partition")} with ${plural(topic.replicas, "replica")} each, ${bytes(topic.bytes)} on disk` : "There is no such topic that this console may describe.");
  });
  return line;
}

const GROUPS = [["Group", "wrap"], ["State"], ["Lag in this topic", "number"]];

// Groups that have committed for the topic.
export function showGroups(main, life, name) {
  const list = element("div");
  main.append(element("h1", {}, name), tabs(name, "Groups", life), list);
  life.every(1000, async () => {
    const found = await life.run(() => ask(`topics/${encodeURIComponent(name)}/groups`, {}, life.signal));
    if (!found) return;
    const searched = found.searched < found.all ? ` Of ${count(found.all)} groups the console keeps the offsets of ${count(found.searched)}.` : "";
    list.replaceChildren(
      found.rows.length ? table(GROUPS, found.rows.map((each) => [groupLink(each.group), each.state, element("span", { class: each.lag ? "warn-text" : null }, count(each.lag))])) : element("p", { class: "faint" }, "No group has committed for it."),
      element("p", { class: "faint" }, searched),
    );
  });
}

// What can be changed of a topic, each with a preview.
export function showChange(main, life, name) {
  if (life.about.read_only) {
    main.append(element("h1", {}, name), tabs(name, "Change", life), notice(ONLY_READS));
    return;
  }
  const fixed = { topic: name };
  main.append(
    element("h1", {}, name),
    tabs(name, "Change", life),
    factLine(life, name),
    action(life, {
      name: "change-settings", heading: "Change settings", fixed, isOpen: true,
      fields: [linesField("Set, one in a line", "set", "retention.ms=604800000"), textField("Back to their defaults", "delete", { placeholder: "cleanup.policy, max.message.bytes" })],
    }),
    action(life, { name: "add-partitions", heading: "Add partitions", fixed, fields: [textField("Partitions in all", "total", { inputmode: "numeric", required: true })] }),
    action(life, { name: "elect-leaders", heading: "Elect preferred leaders", fixed }),
    action(life, {
      name: "move-leaders", heading: "Move leaders to a broker",
      fields: [textField("Partitions", "partitions", { required: true, placeholder: `${name}-0, ${name}-1` }), textField("To broker", "to", { inputmode: "numeric", required: true })],
    }),
    action(life, { name: "purge-topic", heading: "Purge: delete all records", fixed, fields: [textField("Only before these offsets", "offsets", { placeholder: "0:1000,1:950; empty for all records" })] }),
    action(life, {
      name: "delete-topic", heading: "Delete the topic", fixed,
      after: () => {
        location.hash = "#/topics";
      },
    }),
  );
}
