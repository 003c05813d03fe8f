// Transactions: those that coordinators know, and those that hang in a partition because no coordinator will end them.

import { action } from "./action.js";
import { element } from "./elements.js";
import { ask, brokerLink, choice, count, field, notice, pagedList, table } from "./screen.js";
import { time } from "./times.js";

const COLUMNS = [["Transactional id", "wrap"], ["State"], ["Coordinator", "number"], ["Producer", "number"], ["Epoch", "number"], ["Open since", "nowrap"], ["Timeout", "number"], ["Partitions", "wrap"]];
const STATES = [["", "all"], ...["Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Empty"].map((state) => [state, state])];
const HANGING = [["Partition", "wrap"], ["Begins at", "number"], ["Producer", "number"], ["Epoch", "number"], ["Last record", "nowrap"], [""]];

const draw = (each) => [
  each.transactional_id, element("span", { class: each.state === "Ongoing" ? "warn-text" : null }, each.state), brokerLink(each.coordinator), each.producer_id, each.producer_epoch,
  each.start_time_ms === null ? "–" : time(each.start_time_ms).slice(0, 19), `${count(each.timeout_ms / 1000)} s`, each.partitions.join(", "),
];

function hangingForm(life) {
  const topic = element("input", { name: "topic", autocomplete: "off", placeholder: "all topics" });
  const minutes = element("input", { name: "minutes", inputmode: "numeric", value: "15", size: 6 });
  const form = element("form", { class: "bar" }, field("Topic", topic), field("Without a record for so many minutes", minutes), element("button", {}, "Find hanging transactions"));
  const told = element("div", { role: "status" });
  const abort = element("div");

  const choose = (each) => {
    const fixed = { partition: `${each.topic}-${each.partition}`, start_offset: each.transaction_start_offset };
    abort.replaceChildren(action(life, { name: "abort-transaction", heading: `Abort the transaction in ${fixed.partition}`, fixed, isOpen: true }));
    abort.scrollIntoView({ block: "nearest" });
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    abort.replaceChildren();
    told.replaceChildren(element("p", { class: "faint" }, "searching"));
    try {
      const found = await ask("hanging", { topic: topic.value.trim(), minutes: minutes.value.trim() }, life.signal);
      const rows = found.rows.map((each) => {
        const button = element("button", { type: "button" }, "Abort …");
        button.addEventListener("click", () => choose(each));
        return [`${each.topic}-${each.partition}`, count(each.transaction_start_offset), each.producer_id, each.producer_epoch, time(each.last_timestamp).slice(0, 19), life.about.read_only ? "" : button];
      });
      told.replaceChildren(rows.length ? table(HANGING, rows) : element("p", { class: "good-text" }, `None in ${count(found.searched)} partitions.`));
    } catch (problem) {
      if (problem.name !== "AbortError") told.replaceChildren(notice(problem.message, true));
    }
  });
  return element("div", {}, form, told, abort);
}

export function show(main, life) {
  const filters = [field("State", choice("state", STATES, ""))];
  main.append(
    element("h1", {}, "Transactions"),
    ...pagedList(life, { path: "transactions", columns: COLUMNS, draw, filters, placeholder: "part of an id", name: "transactions", every_ms: 5000 }),
    element("h2", {}, "Hanging transactions"),
    element("p", { class: "faint" }, "A partition waits for their end, and no coordinator will write it: consumers of committed records do not get past them."),
    hangingForm(life),
  );
}
