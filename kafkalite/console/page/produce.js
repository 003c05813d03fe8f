// A record written by hand, or one that is there once more.

import { element } from "./elements.js";
import { ask, change, explainWait, field, link, notice, ONLY_READS } from "./screen.js";
import { factLine, tabs } from "./topic.js";

// Bytes that are no text are {"base64": …}, here as in the lines of `kafkalite consume -o jsonl`.
function put(control, item) {
  const box = control.form.elements[`${control.name}_null`];
  control.value = item === null ? "" : typeof item === "string" ? item : JSON.stringify(item);
  box.checked = item === null;
  box.dispatchEvent(new Event("change"));
}

function taken(control) {
  if (control.form.elements[`${control.name}_null`].checked) return null;
  const found = /^\s*\{"base64":\s*"[A-Za-z0-9+/=]*"\}\s*$/.test(control.value) ? JSON.parse(control.value) : control.value;
  return found;
}

// A field that is null, or text, of which the empty one is another thing than null. What is typed is not null any more.
function maybeNull(text, control, meaning, isNull) {
  const box = element("input", { type: "checkbox", name: `${control.name}_null` });
  const show = () => {
    control.placeholder = box.checked ? "null" : "\"\" (empty)";
    if (box.checked) control.value = "";
  };
  box.checked = isNull;
  show();
  box.addEventListener("change", show);
  control.addEventListener("input", () => {
    if (control.value) box.checked = false;
    control.placeholder = box.checked ? "null" : "\"\" (empty)";
  });
  return element("div", {}, field(text, control), element("label", { class: "check" }, box, `${text}: null${meaning}`));
}

export function show(main, life, topic) {
  if (life.about.read_only) {
    main.append(element("h1", {}, topic), tabs(topic, "Produce", life), notice(ONLY_READS));
    return;
  }
  const key = element("input", { name: "key", autocomplete: "off" });
  const value = element("textarea", { name: "value", spellcheck: "false" });
  const headers = element("textarea", { name: "headers", spellcheck: "false", placeholder: "name: content" });
  const partition = element("input", { name: "partition", inputmode: "numeric", placeholder: "by the key" });
  const write = element("button", { class: "main" }, "Write the record");
  const told = element("div", { role: "status" });
  const form = element(
    "form",
    { class: "grid", "data-action": "produce" },
    maybeNull("Key", key, ", so that partitions take turns", true),
    maybeNull("Value", value, ", which deletes the key where a topic is compacted", false),
    field("Headers, one in a line", headers),
    field("Partition", partition),
    element("div", {}, write),
    told,
  );
  main.append(element("h1", {}, topic), tabs(topic, "Produce", life), factLine(life, topic), form, element("p", { class: "faint" }, "Bytes that are no text are written as {\"base64\": \"…\"}."));
  let copied = [];

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const lines = headers.value.split("\n").filter((line) => line.trim());
    const written = lines.map((line) => [line.split(":")[0].trim(), line.slice(line.indexOf(":") + 1).trim()]);
    const record = { key: taken(key), value: taken(value), headers: [...copied, ...written] };
    if (partition.value.trim()) record.partition = Number(partition.value);
    write.disabled = true;
    const end = explainWait((text) => told.replaceChildren(notice(text)));
    try {
      const found = await change(`topics/${encodeURIComponent(topic)}/produce`, { record });
      const where = link(`#/topics/${encodeURIComponent(topic)}/records`, `partition ${found.partition}, offset ${found.offset}`);
      told.replaceChildren(element("p", { class: "good-text", id: "written" }, "Written: ", where));
    } catch (problem) {
      told.replaceChildren(notice(problem.message, true));
    }
    end();
    write.disabled = false;
  });

  const from = life.query.get("from");
  if (from) {
    const [number, offset] = from.split(":");
    life.run(() => ask(`topics/${encodeURIComponent(topic)}/record`, { partition: number, offset }, life.signal)).then((found) => {
      if (!found) return;
      put(key, found.raw.key);
      put(value, found.raw.value);
      const asText = ([, content]) => typeof content === "string" && !content.includes("\n");
      headers.value = found.raw.headers.filter(asText).map(([name, content]) => `${name}: ${content}`).join("\n");
      copied = found.raw.headers.filter((each) => !asText(each));
      told.replaceChildren(element("p", { class: "faint" }, `A copy of ${from}${copied.length ? `, with ${copied.length} headers that are no text` : ""}.`));
    });
  }
}
