// All topics, a page of them at a time.

import { action, linesField, textField } from "./action.js";
import { element } from "./elements.js";
import { bytes, check, count, pagedList, rate, topicLink } from "./screen.js";

const COLUMNS = [["Topic", "wrap", "name"], ["Partitions", "number", "partitions"], ["Replicas", "number"], ["Health", null, "unwell"], ["Records/s", "number", "records_per_s"], ["On disk", "number", "bytes"]];

function draw(each) {
  const states = [];
  if (each.offline) states.push(element("span", { class: "bad-text" }, `${each.offline} offline `));
  if (each.under_replicated) states.push(element("span", { class: "warn-text" }, `${each.under_replicated} under-replicated`));
  const name = [topicLink(each.name)];
  if (each.is_internal) name.push(" ", element("span", { class: "badge" }, "internal"));
  return [name, count(each.partitions), count(each.replicas), states.length ? states : [element("span", { class: "good-text" }, "ok")], rate(each.records_per_s), bytes(each.bytes)];
}

function creation(life) {
  const fields = [
    textField("Name", "topic", { required: true }),
    textField("Partitions", "partitions", { inputmode: "numeric", placeholder: "the brokers' default" }),
    textField("Replicas of each", "replicas", { inputmode: "numeric", placeholder: "the brokers' default" }),
    linesField("Settings, one in a line", "settings", "retention.ms=604800000"),
  ];
  const after = (plan) => {
    location.hash = `#/topics/${encodeURIComponent(plan.rows[0][0])}`;
  };
  return action(life, { name: "create-topic", heading: "Create a topic", fields, after });
}

export function show(main, life) {
  const filters = [check("unwell", "only with problems"), check("internal", "internal ones, too")];
  main.append(element("h1", {}, "Topics"), ...pagedList(life, { path: "topics", columns: COLUMNS, draw, filters, placeholder: "part of a name", name: "topics" }), creation(life));
}
