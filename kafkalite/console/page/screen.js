// What all screens are made of: questions to the console, tables, pages, how figures are written.

import { element, setText } from "./elements.js";
import { clock, isoTime, time, zone } from "./times.js";

const PATIENCE_MS = 1500;
const PAUSES_MS = [0, 100, 300, 1000]; // before a request is sent

export class Problem extends Error {}

class NoAnswer extends Problem {}

const isLost = (problem) => problem instanceof TypeError; // what fetch throws without an answer

async function answerOf(response) {
  const found = await response.json().catch((problem) => {
    if (isLost(problem) || problem.name === "AbortError") throw problem; // AbortError: the screen was left while the answer came
    return { error: response.ok ? "the console's answer broke off" : `the console answered ${response.status}`, isBroken: true };
  });
  if (!response.ok || found.isBroken) throw new Problem(found.error ?? `the console answered ${response.status}`);
  return found;
}

const query = (asked) => {
  const given = Object.entries(asked).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, value === true ? "1" : value]))}` : "";
};

// In full, without the name and password that the page's own address may have: fetch refuses such.
const base = `${location.origin}${location.pathname}api/`;

export const addressOf = (path, asked = {}) => `${base}${path}${query(asked)}`;

// Sends again what gets no answer: browsers break requests off when the network of the machine changes, as it does with each container.
async function answerTo(address, options) {
  for (const pause_ms of PAUSES_MS) {
    if (pause_ms) await new Promise((resume) => setTimeout(resume, pause_ms));
    try {
      return await answerOf(await fetch(address, options));
    } catch (problem) {
      if (!isLost(problem)) throw problem;
    }
  }
  throw new NoAnswer("The console does not answer.");
}

export const ask = async (path, asked = {}, signal = undefined) => answerTo(addressOf(path, asked), { signal });

// The console makes a change that comes again with its id only once.
export async function change(path, body) {
  const id = [...crypto.getRandomValues(new Uint8Array(16))].map((each) => each.toString(16).padStart(2, "0")).join("");
  const headers = { "Content-Type": "application/json", "X-Kafkalite-Console": "1", "X-Kafkalite-Change": id };
  try {
    return await answerTo(addressOf(path), { method: "POST", headers, body: JSON.stringify(body) });
  } catch (problem) {
    if (!(problem instanceof NoAnswer)) throw problem;
    throw new Problem("The console does not answer, so it is not known whether this was done. Look before you do it again.");
  }
}

// Calls `tell` with the reason when there is no answer for a while; ends when what it returns is called.
export function explainWait(tell) {
  let isOver = false;
  const timer = setTimeout(async () => {
    const found = await ask("console").catch(() => null);
    const reason = found?.unanswering.length ? `: ${found.unanswering.join("; ")}` : "";
    if (!isOver) tell(`No answer for ${PATIENCE_MS / 1000} s yet${reason}. It is still waited for.`);
  }, PATIENCE_MS);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

// Figures

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  let amount = count;
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (amount < 1000 || unit === "TB") return `${amount < 10 && unit !== "B" ? amount.toFixed(1) : Math.round(amount)} ${unit}`;
    amount /= 1000;
  }
}

export const count = (number) => (number === null || number === undefined ? "–" : Number(number).toLocaleString("en"));

export const rate = (number) => (number === null || number === undefined ? "–" : number < 10 ? number.toFixed(1) : count(Math.round(number)));

export const address = ({ host, port }) => (host === null ? "–" : host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`);

// Parts of pages

const STATES = { up: ["good-text", "up"], slow: ["warn-text", "slow"], silent: ["warn-text", "does not answer"], unknown: ["warn-text", "starting"], down: ["bad-text", "down"] };

// A broker is down when it is not registered any more; one that is registered and does not answer is neither up nor down.
export function brokerState(each) {
  const [kind, text] = STATES[each.state];
  const since = each.state === "silent" && each.silent_since_ms ? ` since ${clock(each.silent_since_ms)} ${zone()}` : "";
  const made = [element("span", { class: kind, title: each.problem ?? null }, `${text}${since}`)];
  if (each.is_controller) made.push(" ", element("span", { class: "badge" }, "controller"));
  return made;
}

export const link = (href, text, attributes = {}) => element("a", { href, ...attributes }, text);

// A name that is broken behind its dots, hyphens and underscores, and nowhere else.
export const breakable = (name) => String(name).split(/(?<=[._-])/).flatMap((part, index) => (index ? [element("wbr"), part] : [part]));

export const topicLink = (name) => element("a", { href: `#/topics/${encodeURIComponent(name)}` }, ...breakable(name));

export const groupLink = (id) => element("a", { href: `#/groups/${encodeURIComponent(id)}` }, ...breakable(id));

export const brokerLink = (id) => (id < 0 ? "none" : link(`#/brokers/${id}`, id));

// A table; columns are [title, class], a row is a list of what goes into its cells, the first of them its heading.
export function table(columns, rows, attributes = {}) {
  const heads = columns.map(([title, kind]) => element("th", { scope: "col", class: kind }, title));
  const body = rows.map((cells) => row(columns, cells));
  return element("div", { class: "scroll" }, element("table", attributes, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body)));
}

export function row(columns, cells) {
  const made = cells.map((cell, index) => {
    const kind = columns[index]?.[1];
    const content = Array.isArray(cell) ? cell : [cell ?? "–"];
    return index === 0 ? element("th", { scope: "row", class: kind }, ...content) : element("td", { class: kind }, ...content);
  });
  return element("tr", {}, ...made);
}

export function tiles(list) {
  return element(
    "dl",
    { class: "tiles" },
    ...list.map(([title, figure, level]) => element("div", { class: level || null }, element("dt", {}, title), element("dd", {}, figure))),
  );
}

export const notice = (text, isBad = false) => element("p", { class: isBad ? "notice bad" : "notice", role: "alert" }, text);

// On a screen that has no other purpose than to change something.
export const ONLY_READS = "This console only reads (--read-only); nothing can be changed here.";

export const check = (name, text, isOn = false) => element("label", { class: "check" }, element("input", { type: "checkbox", name, checked: isOn }), text);

export const field = (text, control) => element("label", {}, text, control);

export function choice(name, options, chosen) {
  return element("select", { name }, ...options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
}

// A list that is filtered, sorted and paged by the console. `draw` makes cells of a row.
export function pagedList(life, { path, columns, draw, filters = [], placeholder, name, every_ms = 1000 }) {
  const state = { page: 0, rows: 50, sort: null };
  const search = element("input", { type: "search", name: "filter", autocomplete: "off", spellcheck: "false", placeholder });
  const form = element("form", { class: "bar", role: "search" }, field("Name", search), ...filters);
  const body = element("tbody");
  const heads = columns.map(([title, kind, sort]) => {
    const head = element("th", { scope: "col", class: kind });
    if (!sort) head.append(title);
    else {
      const button = element("button", { type: "button", class: "sort" }, title);
      button.addEventListener("click", () => {
        state.sort = state.sort === sort ? null : sort;
        state.page = 0;
        for (const each of heads) each.removeAttribute("aria-sort");
        if (state.sort) head.setAttribute("aria-sort", "descending");
        load();
      });
      head.append(button);
    }
    return head;
  });
  const shown = element("span", { class: "faint", role: "status" });
  const back = element("button", { type: "button" }, "‹ Previous");
  const on = element("button", { type: "button" }, "Next ›");
  const turn = (by) => {
    state.page += by;
    load();
  };
  back.addEventListener("click", () => turn(-1));
  on.addEventListener("click", () => turn(1));
  let latest = 0;

  async function load() {
    const number = (latest += 1);
    const asked = { page: state.page, rows: state.rows, sort: state.sort };
    for (const [key, value] of new FormData(form)) asked[key] = value === "on" ? true : value;
    const found = await life.run(() => ask(path, asked, life.signal));
    if (!found || number !== latest) return;
    body.replaceChildren(...found.rows.map((each) => row(columns, draw(each))));
    const first = found.page * found.rows_per_page;
    setText(shown, found.count ? `${count(first + 1)} to ${count(first + found.rows.length)} of ${count(found.count)}` : `no ${name}`);
    back.disabled = found.page === 0;
    on.disabled = first + found.rows.length >= found.count;
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    state.page = 0;
    load();
  });
  const whole = element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body));
  life.every(every_ms, load);
  return [form, whole, element("div", { class: "pages" }, back, on, shown)];
}

export const SOURCES = {
  DYNAMIC_TOPIC_CONFIG: "set of this topic",
  DYNAMIC_BROKER_CONFIG: "set of this broker, while it runs",
  DYNAMIC_DEFAULT_BROKER_CONFIG: "set of all brokers, while they run",
  STATIC_BROKER_CONFIG: "the broker's file",
  DEFAULT_CONFIG: "default",
};

// Settings with where they come from; what nobody has set is shown when it is asked for.
export function settings(rows) {
  const columns = [["Setting", "wrap"], ["Value", "mono"], ["From", "nowrap"], ["What it is", "wrap"]];
  const made = rows.map((each) => {
    const other = each.synonyms.slice(1).map((synonym) => `${SOURCES[synonym.source] ?? synonym.source}: ${synonym.value ?? "–"}`);
    const from = [SOURCES[each.source] ?? each.source];
    if (other.length) from.push(element("div", { class: "faint" }, `else ${other[0]}`));
    const drawn = row(columns, [breakable(each.name), each.is_sensitive ? "hidden" : (each.value || "–"), from, each.documentation ?? ""]);
    if (!each.is_default) drawn.className = "set";
    return [each, drawn];
  });
  const filter = element("input", { type: "search", name: "setting", autocomplete: "off", placeholder: "part of a name" });
  const all = check("all", "Show defaults", !rows.some((each) => !each.is_default));
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    for (const [each, drawn] of made) {
      drawn.hidden = !each.name.includes(wanted) || (each.is_default && !wanted && !all.querySelector("input").checked);
    }
  };
  const form = element("form", { class: "bar", role: "search" }, field("Setting", filter), all);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", show);
  const heads = columns.map(([title, kind]) => element("th", { scope: "col", class: kind }, title));
  const body = element("tbody", {}, ...made.map(([, drawn]) => drawn));
  show();
  return [form, element("div", { class: "scroll" }, element("table", { class: "settings" }, element("thead", {}, element("tr", {}, ...heads)), body))];
}

const EVENTS = { election: "election", isr: "ISR", "broker came": "broker joined", "broker gone": "broker left", controller: "controller", created: "new partition", deleted: "partition deleted" };

// Changes of the cluster, the newest first.
export function changeLog(rows) {
  const items = rows.map((each) => {
    const source = each.zxid ? `As ZooKeeper has it, zxid ${each.zxid}` : "When the console noticed it";
    const moment = element("time", { datetime: isoTime(each.time_ms), title: source }, each.zxid ? time(each.time_ms) : `by ${time(each.time_ms).slice(0, 19)}`);
    const about = each.text.startsWith(each.event) ? each.text.slice(each.event.length).trim() : each.text;
    return element("li", {}, moment, element("span", {}, element("b", {}, EVENTS[each.event] ?? each.event), ` ${about}`));
  });
  return element("ol", { class: "log", "aria-label": "Changes" }, ...items);
}
