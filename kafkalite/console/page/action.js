// An action: its fields, a preview of what it would do with the command line that does the same, and then it is done. What cannot be
// undone has a word to be typed first.

import { element, setText } from "./elements.js";
import { change, count, explainWait, field, notice, table } from "./screen.js";

const title = (name) => `${name[0].toUpperCase()}${name.slice(1).replaceAll("_", " ")}`;

export function commandLine(text) {
  const copy = element("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    setText(copy, "Copied");
  });
  const tool = /^kafka-[a-z-]+/.exec(text);
  const from = tool ? [element("p", { class: "faint" }, `${tool[0]} is among the tools that \`kafkalite kafka-tools FOLDER\` writes.`)] : [];
  return element("div", { class: "command" }, element("p", { class: "faint" }, "The same in a terminal: ", copy), element("pre", { tabindex: "0", "aria-label": "Command line" }, text), ...from);
}

function planRows(plan) {
  const columns = plan.columns.map((name, index) => [title(name), plan.rows.some((row) => typeof row[index] === "number") ? "number" : "wrap"]);
  const rows = plan.rows.map((row) => row.map((cell) => (typeof cell === "number" ? count(cell) : cell)));
  const more = plan.count > plan.rows.length ? [element("p", { class: "faint" }, `and ${count(plan.count - plan.rows.length)} more`)] : [];
  return [table(columns, rows), ...more];
}

// `fixed` are parameters that no field has; `after` is called with the plan once it was executed.
export function action(life, { name, heading, fields = [], fixed = {}, after = () => {}, isOpen = false }) {
  if (life.about.read_only) return "";
  const execute = element("button", { type: "button", class: "danger", disabled: true }, "Do it");
  const typed = element("input", { name: "confirm", autocomplete: "off", spellcheck: "false" });
  const typedLabel = element("span");
  const typedField = element("label", { hidden: true }, typedLabel, typed);
  const told = element("div", { role: "status" });
  const form = element("form", { class: "grid", "data-action": name }, ...fields, element("div", {}, element("button", {}, "Preview")), told, typedField, element("div", {}, execute));
  let plan = null;

  const forget = () => {
    plan = null;
    execute.disabled = typedField.hidden = true;
  };

  async function send(extra) {
    const asked = { ...fixed, ...Object.fromEntries(new FormData(form)), ...extra };
    execute.disabled = true;
    life.isActing = Boolean(extra.execute);
    const end = explainWait((text) => told.replaceChildren(notice(text)));
    try {
      plan = await change(`actions/${name}`, asked);
    } catch (problem) {
      forget();
      told.replaceChildren(notice(problem.message, true));
      return;
    } finally {
      end();
      life.isActing = false;
    }
    const said = plan.is_done ? element("p", { class: "good-text" }, "Done.") : element("p", {}, "Nothing has changed yet. This would:");
    told.replaceChildren(said, ...planRows(plan), ...(plan.is_done ? [] : plan.warnings.map((each) => notice(each))), commandLine(plan.command));
    typed.value = "";
    if (plan.is_done) {
      const done = plan;
      forget();
      after(done);
      return;
    }
    setText(typedLabel, `Type ${plan.confirm} to confirm`);
    typedField.hidden = !plan.confirm;
    execute.disabled = Boolean(plan.confirm);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send({ confirm: "" });
  });
  form.addEventListener("input", (event) => {
    if (event.target === typed) execute.disabled = !plan || typed.value.trim() !== plan.confirm;
    else if (plan) {
      forget();
      told.replaceChildren();
    }
  });
  execute.addEventListener("click", () => send({ ...plan.resolved, execute: true, confirm: typed.value }));
  return element("details", { class: "action", open: isOpen }, element("summary", {}, heading), form);
}

export const textField = (text, name, attributes = {}) => field(text, element("input", { name, autocomplete: "off", spellcheck: "false", ...attributes }));

export const linesField = (text, name, placeholder) => field(text, element("textarea", { name, spellcheck: "false", placeholder }));
