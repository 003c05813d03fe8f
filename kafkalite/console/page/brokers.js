// Brokers, moves of partitions as they go on, a broker's settings.

import { element } from "./elements.js";
import { address, ask, brokerLink, brokerState, bytes, count, settings, table, topicLink } from "./screen.js";

const BROKERS = [["Broker"], ["State"], ["Address", "mono"], ["Rack"], ["Leads", "number"], ["Replicas", "number"], ["On disk", "number"]];
const MOVES = [["Partition", "wrap"], ["Replicas"], ["To come"], ["To go"], ["Arrived"], ["Of", "number"]];

export function show(main, life) {
  const brokers = element("div");
  const moves = element("div");
  main.append(element("h1", {}, "Brokers"), brokers, element("h2", {}, "Partitions that are being moved"), moves);
  let rounds;
  life.every(1000, async () => {
    const found = await life.run(() => ask("overview", { rounds }, life.signal));
    if (!found) return;
    rounds = found.rounds;
    brokers.replaceChildren(table(BROKERS, found.brokers.map((each) => [
      brokerLink(each.id),
      brokerState(each),
      address(each), each.rack, count(each.leaders), count(each.replicas), bytes(each.bytes),
    ])));
  });
  life.every(2000, async () => {
    const found = await life.run(() => ask("reassignments", {}, life.signal));
    if (!found) return;
    const list = (some) => some.join(", ") || "–";
    moves.replaceChildren(found.rows.length
      ? table(MOVES, found.rows.map((each) => [
        [topicLink(each.topic), ` ${each.partition}`], list(each.replicas), list(each.adding_replicas), list(each.removing_replicas),
        each.share === null ? "–" : [element("progress", { max: 1, value: each.share, "aria-label": "Arrived" }), ` ${Math.round(each.share * 100)} %`], bytes(each.bytes),
      ]))
      : element("p", { class: "faint", id: "no-moves" }, "None."));
  });
}

export async function showOne(main, life, id) {
  main.append(element("h1", {}, `Broker ${id}`));
  const found = await life.run(() => ask(`brokers/${id}`, {}, life.signal));
  if (found) main.append(...settings(found.settings));
}
