// Consumer groups; one group with its members, its lag, and where its offsets could be moved.

import { action, commandLine } from "./action.js";
import { element } from "./elements.js";
import { plot } from "./plot.js";
import { ask, brokerLink, change, choice, count, explainWait, field, groupLink, notice, pagedList, table, tiles, topicLink } from "./screen.js";
import { parseTime } from "./times.js";

const COLUMNS = [["Group", "wrap", "group"], ["State"], ["Protocol"], ["Coordinator", "number"], ["Lag", "number", "lag"]];
const PARTITIONS = [["Partition", "wrap"], ["Committed", "number"], ["End", "number"], ["Lag", "number"], ["Read by", "wrap"], ["At"]];
const MEMBERS = [["Member", "wrap"], ["Client"], ["At"], ["Partitions", "wrap"]];
const PLAN = [["Partition", "wrap"], ["Committed", "number"], ["Becomes", "number"], ["Change", "number"]];
const TARGETS = [["earliest", "the oldest records"], ["latest", "the end"], ["time", "a time"], ["offset", "an offset"], ["shift", "so many records on, or back"]];

export function show(main, life) {
  const draw = (each) => [groupLink(each.group), each.state, each.protocol_type || "–", brokerLink(each.coordinator), count(each.lag)];
  main.append(element("h1", {}, "Groups"), ...pagedList(life, { path: "groups", columns: COLUMNS, draw, placeholder: "part of a name", name: "groups" }));
}

export function showOne(main, life, id) {
  const lag = plot("Lag", ["lag"], count);
  const facts = element("div");
  const partitions = element("div");
  const members = element("div");
  main.append(element("h1", {}, id), facts, element("div", { class: "plots" }, lag), element("h2", {}, "Partitions"), partitions, element("h2", {}, "Members"), members);
  if (!life.about.read_only) main.append(element("h2", {}, "Reset offsets"), resetForm(life, id), deletion(life, id));
  life.every(3000, async () => {
    const found = await life.run(() => ask("group", { id }, life.signal));
    if (!found) return;
    facts.replaceChildren(tiles([
      ["State", found.state, found.state === "Dead" ? "warn" : ""],
      ["Members", count(found.members.length)],
      ["Lag", count(found.lag), found.lag ? "warn" : ""],
      ["Coordinator", found.coordinator],
      ["Assignor", found.assignor || "–"],
    ]));
    lag.show(found.history);
    partitions.replaceChildren(table(PARTITIONS, found.partitions.map((each) => [
      [topicLink(each.topic), ` ${each.partition}`], count(each.committed_offset), count(each.end_offset),
      element("span", { class: each.lag ? "warn-text" : null }, count(each.lag)), each.owner, each.client_host,
    ])));
    members.replaceChildren(found.members.length
      ? table(MEMBERS, found.members.map((each) => [each.member_id, each.client_id, each.client_host, each.partitions.join(", ")]))
      : element("p", { class: "faint" }, "Nobody is in it."));
  });
}

function deletion(life, id) {
  const after = () => {
    location.hash = "#/groups";
  };
  return action(life, { name: "delete-group", heading: "Delete the group", fixed: { group: id }, after });
}

function resetForm(life, id) {
  const to = choice("to", TARGETS, "earliest");
  const at = element("input", { name: "at", size: 24 });
  const atField = field("Which", at);
  const topic = element("input", { name: "topic", placeholder: "all that it has committed for" });
  const dry = element("button", {}, "Preview");
  const execute = element("button", { type: "button", class: "danger", disabled: true }, "Do it");
  const told = element("div", { role: "status", id: "plan" });
  const form = element("form", { class: "bar", "data-action": "reset-offsets" }, field("To", to), atField, field("Topic", topic), dry, execute);
  const showAt = () => {
    atField.hidden = ["earliest", "latest"].includes(to.value);
    at.placeholder = { time: "2013-06-15 06:00", offset: "0", shift: "-100" }[to.value] ?? "";
  };
  to.addEventListener("change", showAt);
  showAt();
  form.addEventListener("input", () => {
    execute.disabled = true;
  });

  async function ask(isExecuted) {
    const body = { id, to: to.value, topic: topic.value.trim(), execute: isExecuted };
    if (to.value === "time") body.at = parseTime(at.value) || -1;
    else if (!atField.hidden) body.at = Number(at.value);
    const end = explainWait((text) => told.replaceChildren(notice(text)));
    try {
      const found = await change("group/reset", body);
      execute.disabled = found.is_done || !found.rows.length;
      const rows = found.rows.map((each) => {
        const by = each.committed_offset === null ? "new" : each.new_offset - each.committed_offset;
        return [[topicLink(each.topic), ` ${each.partition}`], count(each.committed_offset), count(each.new_offset), typeof by === "number" && by > 0 ? `+${count(by)}` : by === "new" ? by : count(by)];
      });
      told.replaceChildren(element("p", { class: found.is_done ? "good-text" : null }, found.is_done ? "Done." : "Nothing has changed yet. This would:"), table(PLAN, rows), commandLine(found.command));
    } catch (problem) {
      execute.disabled = true;
      told.replaceChildren(notice(problem.message, true));
    } finally {
      end();
    }
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(false);
  });
  execute.addEventListener("click", () => ask(true));
  return element("div", {}, form, told);
}
