// The cluster at a glance: is it well, who is in it, what goes through it.

import { element } from "./elements.js";
import { plot } from "./plot.js";
import { address, ask, brokerLink, bytes, changeLog, count, notice, rate, table, tiles } from "./screen.js";

const BROKERS = [["Broker"], ["State"], ["Address", "mono"], ["Rack"], ["Leads", "number"], ["Replicas", "number"], ["Not in sync", "number"], ["On disk", "number"]];

function brokerRow(each) {
  const state = [element("span", { class: each.alive ? "good-text" : "bad-text" }, each.alive ? "up" : "down")];
  if (each.is_controller) state.push(" ", element("span", { class: "badge" }, "controller"));
  const behind = element("span", { class: each.out_of_sync ? "warn-text" : null }, count(each.out_of_sync));
  return [brokerLink(each.id), state, address(each), each.rack, count(each.leaders), count(each.replicas), behind, bytes(each.bytes)];
}

function health(verdicts) {
  const items = verdicts.map((each) => {
    const sign = element("span", { class: each.healthy ? "good-text" : "bad-text" }, each.healthy ? "✓ " : "✕ ");
    const more = each.count > each.problems.length ? `, and ${count(each.count - each.problems.length)} more` : "";
    return element("li", {}, element("span", {}, sign, each.check), element("span", { class: "faint" }, each.healthy ? "" : each.problems.join(", ") + more));
  });
  return element("ul", { class: "log health" }, ...items);
}

export function show(main, life) {
  const plots = [
    plot("Records written/s", ["records_per_s"], rate),
    plot("Partitions", ["under_replicated", "offline"], count),
    plot("On disk, all replicas", ["bytes"], bytes),
    plot("Lag of groups", ["lag"], count),
  ];
  const facts = element("div");
  const brokers = element("div");
  const verdicts = element("div");
  const changes = element("div");
  main.append(
    element("h1", {}, "Overview"),
    facts,
    element("div", { class: "plots" }, ...plots),
    element("div", { class: "columns" },
      element("section", {}, element("h2", {}, "Brokers"), brokers),
      element("section", {}, element("h2", {}, "Health"), verdicts)),
    element("h2", {}, "Changes ", element("small", {}, "since the console was started")),
    changes,
  );
  life.every(5000, async () => {
    const found = await life.run(() => ask("overview", {}, life.signal));
    if (!found) return;
    const { counts } = found;
    const up = found.brokers.filter((each) => each.alive).length;
    facts.replaceChildren(
      ...(found.problem ? [notice(`Not all of the cluster could be looked at: ${found.problem}`)] : []),
      tiles([
        ["Brokers up", `${up} of ${found.brokers.length}`, up < found.brokers.length ? "bad" : ""],
        ["Controller", found.controller_id < 0 ? "none" : found.controller_id, found.controller_id < 0 ? "bad" : ""],
        ["Topics", count(counts.topics)],
        ["Partitions", count(counts.partitions)],
        ["Offline", count(counts.unavailable_partitions), counts.unavailable_partitions ? "bad" : ""],
        ["Under-replicated", count(counts.under_replicated_partitions), counts.under_replicated_partitions ? "warn" : ""],
        ["Groups", count(found.groups)],
        ["Records/s", rate(found.records_per_s)],
        ["On disk", bytes(found.bytes)],
      ]),
    );
    for (const each of plots) each.show(found.history);
    brokers.replaceChildren(table(BROKERS, found.brokers.map(brokerRow)), element("p", { class: "faint" }, `Cluster ${found.cluster_id ?? "–"}`));
    verdicts.replaceChildren(health(found.health));
    changes.replaceChildren(found.changes.length ? changeLog(found.changes) : element("p", { class: "faint" }, "None so far."));
    main.dataset.ready = "1";
  });
}
