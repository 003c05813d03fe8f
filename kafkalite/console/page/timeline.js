// Elections, ISR changes, brokers and topics that came and went.

import { element } from "./elements.js";
import { ask, changeLog, choice, field } from "./screen.js";

const EVENTS = [["", "everything"], ["election", "elections"], ["isr", "ISR changes"], ["broker came", "brokers that came"], ["broker gone", "brokers that went"], ["controller", "controllers"], ["created", "new partitions"], ["deleted", "deleted partitions"]];

export function show(main, life) {
  const event = choice("event", EVENTS, "");
  const form = element("form", { class: "bar" }, field("Show", event));
  const list = element("div");
  main.append(element("h1", {}, "Timeline"), element("p", { class: "faint" }, "What has changed since the console was started, as it looked every few seconds. Times are UTC."), form, list);
  const load = async () => {
    const found = await life.run(() => ask("timeline", { event: event.value }, life.signal));
    if (found) list.replaceChildren(found.rows.length ? changeLog(found.rows) : element("p", { class: "faint" }, "Nothing so far."));
  };
  form.addEventListener("input", load);
  life.every(3000, load);
}
