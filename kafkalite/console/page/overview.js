// The cluster at a glance: is it well, who is in it, what goes through it.

import { late } from "./as_of.js";
import { element } from "./elements.js";
import { plot } from "./plot.js";
import { address, ask, brokerLink, brokerState, bytes, changeLog, count, notice, rate, table, tiles } from "./screen.js";

const BROKERS = [["Broker"], ["State"], ["Address", "mono nowrap"], ["Rack"], ["Leads", "number"], ["Replicas", "number"], ["Not in sync", "number"], ["On disk", "number"]];

function brokerRow(each) {
  const state = brokerState(each);
  const behind = element("span", { class: each.out_of_sync ? "warn-text" : null }, count(each.out_of_sync));
  return [brokerLink(each.id), state, address(each), each.rack, count(each.leaders), count(each.replicas), behind, bytes(each.bytes)];
}

// A check of what is not known any more is neither good nor bad.
function health(verdicts, isKnown) {
  const items = verdicts.map((each) => {
    const [kind, text] = !isKnown ? ["warn-text", "? "] : each.healthy ? ["good-text", "✓ "] : ["bad-text", "✕ "];
    const sign = element("span", { class: kind }, text);
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
  let shown = null;

  function draw() {
    if (!shown) return;
    const { counts } = shown;
    const stale = late();
    const isKnown = !stale.includes("brokers and controller") && !stale.includes("leaders and in-sync replicas");
    const level = (is, kind) => (!isKnown ? "warn" : is ? kind : "");
    const up = shown.brokers.filter((each) => ["up", "slow"].includes(each.state)).length;
    const silent = shown.brokers.some((each) => each.state === "silent");
    facts.replaceChildren(
      ...(shown.problem ? [notice(`Not all of the cluster could be looked at: ${shown.problem}`)] : []),
      tiles([
        ["Brokers up", `${up} of ${shown.brokers.length}`, level(up < shown.brokers.length, silent ? "warn" : "bad")],
        ["Controller", shown.controller_id === null ? "–" : shown.controller_id < 0 ? "none" : shown.controller_id, level(shown.controller_id !== null && shown.controller_id < 0, "bad")],
        ["Topics", count(counts.topics)],
        ["Partitions", count(counts.partitions)],
        ["Offline", count(counts.unavailable_partitions), level(counts.unavailable_partitions, "bad")],
        ["Under-replicated", count(counts.under_replicated_partitions), level(counts.under_replicated_partitions, "warn")],
        ["Groups", count(shown.groups), stale.includes("groups") ? "warn" : ""],
        ["Records/s", rate(shown.records_per_s), stale.includes("records") ? "warn" : ""],
        ["On disk", bytes(shown.bytes), stale.includes("sizes") ? "warn" : ""],
      ]),
    );
    brokers.replaceChildren(table(BROKERS, shown.brokers.map(brokerRow)), element("p", { class: "faint" }, `Cluster ${shown.cluster_id ?? "–"}, as ${shown.source ?? "nobody"} tells it`));
    verdicts.replaceChildren(health(shown.health, isKnown));
    changes.replaceChildren(shown.changes.length ? changeLog(shown.changes) : element("p", { class: "faint" }, "None so far."));
    main.dataset.ready = "1";
  }

  document.addEventListener("lateness", draw, { signal: life.signal });
  life.every(1000, async () => {
    const found = await life.run(() => ask("overview", { rounds: shown?.rounds }, life.signal));
    if (!found) return;
    shown = found;
    if (found.history) for (const each of plots) each.show(found.history);
    draw();
  });
}
