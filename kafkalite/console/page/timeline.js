// Elections, ISR changes, brokers and topics that came and went.

import { element } from "./elements.js";
import { ask, changeLog, choice, field } from "./screen.js";

const EVENTS = [["", "everything"], ["election", "elections"], ["isr", "ISR changes"], ["broker came", "brokers that joined"], ["broker gone", "brokers that left"], ["controller", "controllers"], ["created", "new partitions"], ["deleted", "deleted partitions"]];

export function show(main, life) {
  const event = choice("event", EVENTS, "");
  const form = element("form", { class: "bar" }, field("Show", event));
  const list = element("div");
  main.append(element("h1", {}, "Timeline"), element("p", { class: "faint" }, "What has changed since the console was started. Times are ZooKeeper's, to the millisecond; “by” stands before the time at which the console noticed a change."), form, list);
  let known;
  const load = async () => {
    const found = await life.run(() => ask("timeline", { event: event.value, known }, life.signal));
    if (found) known = found.known;
    if (found?.rows) list.replaceChildren(found.rows.length ? changeLog(found.rows) : element("p", { class: "faint" }, "Nothing so far."));
  };
  form.addEventListener("input", () => {
    known = undefined;
    load();
  });
  life.every(1000, load);
}
