// Brokers, moves of partitions as they go on; one broker with its partitions and settings.

import { action, linesField, textField } from "./action.js";
import { element } from "./elements.js";
import { address, ask, brokerLink, brokerState, bytes, choice, count, field, pagedList, settings, table, topicLink } from "./screen.js";

const BROKERS = [["Broker"], ["State"], ["Address", "mono nowrap"], ["Rack"], ["Leads", "number"], ["Replicas", "number"], ["On disk", "number"]];
const MOVES = [["Partition", "wrap"], ["Replicas"], ["To come"], ["To go"], ["Arrived"], ["Of", "number"]];

export function show(main, life) {
  const brokers = element("div");
  const moves = element("div");
  main.append(element("h1", {}, "Brokers"), brokers, element("h2", {}, "Partitions that are being moved"), moves,
    action(life, { name: "elect-leaders", heading: "Elect preferred leaders everywhere" }),
    action(life, {
      name: "change-settings", heading: "Change settings of all brokers",
      fields: [linesField("Set, one in a line", "set", "log.cleaner.threads=2"), textField("Back to their defaults", "delete", { placeholder: "log.cleaner.threads" })],
    }));
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

const PARTITIONS = [["Partition", "wrap"], ["Role"], ["Leader", "number"], ["Replicas"], ["In sync"], ["On disk", "number"]];
const ROLES = [["", "all"], ["leads", "that it leads"], ["follows", "that it follows"], ["not in sync", "that it is not in sync with"]];

const drawPartition = (each) => [
  [topicLink(each.topic), ` ${each.partition}`], element("span", { class: each.role === "not in sync" ? "warn-text" : null }, each.role),
  brokerLink(each.leader), each.replicas.join(", "), each.isr.join(", "), bytes(each.bytes),
];

function brokerActions(life, id) {
  const set = linesField("Set, one in a line", "set", "log.cleaner.threads=2");
  const back = textField("Back to their defaults", "delete", { placeholder: "log.cleaner.threads" });
  return [
    action(life, { name: "change-settings", heading: "Change settings of this broker", fixed: { broker: id }, fields: [set, back] }),
    action(life, { name: "move-leaders", heading: "Move leaders away from it", fixed: { away_from: id } }),
    action(life, { name: "elect-leaders", heading: "Give it back the partitions that it is preferred for", fixed: { broker: id } }),
  ];
}

export async function showOne(main, life, id) {
  const filters = [field("Show", choice("role", ROLES, ""))];
  const set = element("section", { "aria-label": "Settings" });
  main.append(
    element("h1", {}, `Broker ${id}`),
    ...brokerActions(life, id),
    element("h2", {}, "Partitions"),
    ...pagedList(life, { path: `brokers/${id}/partitions`, columns: PARTITIONS, draw: drawPartition, filters, placeholder: "part of a topic", name: "partitions" }),
    element("h2", {}, "Settings"),
    set,
  );
  const found = await life.run(() => ask(`brokers/${id}`, {}, life.signal));
  if (found) set.append(...settings(found.settings));
}
