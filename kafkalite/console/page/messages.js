// Records of a topic: pages of them, a search, what comes live. Whatever is in a record is put in as text.

import { element, plural, setText } from "./elements.js";
import { coloured, jsonTree, longText } from "./json.js";
import { addressOf, ask, bytes, check, choice, count, field, link, notice } from "./screen.js";
import { parseTime, time, zone } from "./times.js";
import { tabs } from "./topic.js";

const FORMATS = [["auto", "Auto"], ["text", "text"], ["json", "JSON"], ["msgpack", "msgpack"], ["hex", "hexadecimal"]];
const STARTS = [["latest", "the newest"], ["earliest", "the oldest"], ["offset", "an offset"], ["time", "a time"]];
const LIVE_KEPT = 500;

const records = (number) => `${count(number)} ${number === 1 ? "record" : "records"}`;

// A producer may write any 64-bit number; the console says how those are shown that are no time of a calendar.
const shownTime = (record) => (record.time === "-" ? "–" : record.time.endsWith("Z") ? time(record.timestamp) : record.time);

const JSON_KINDS = ["json", "msgpack", "schema"];

const reasonOf = (data) => (data.reason ? `Shown as ${data.kind === "hex" ? "hexadecimal" : data.kind} because ${data.reason}.` : null);

function shownData(data) {
  if (data.kind === "null") return element("span", { class: "faint" }, "null");
  const text = data.text || (data.bytes ? data.text : "(empty)");
  const content = JSON_KINDS.includes(data.kind) ? coloured(text) : [text];
  return element("span", { class: "value mono", title: reasonOf(data) }, ...content, data.is_cut ? " …" : "");
}

const TRANSACTIONS = {
  aborted: ["bad-text", "aborted", "Its transaction was aborted: consumers that read committed records do not get it."],
  open: ["warn-text", "open", "In an open transaction, or behind one: consumers that read committed records do not get it yet."],
};

// Nothing for records that are committed or of no transaction.
function transactionMark(record) {
  if (!record.transaction) return [];
  const [kind, text, meaning] = TRANSACTIONS[record.transaction];
  return [element("span", { class: `badge ${kind}`, title: meaning }, text)];
}

function whole(title, data) {
  const kind = data.kind === "null" ? "null" : `${data.kind}, ${bytes(data.bytes)}${data.is_cut ? ", cut off" : ""}`;
  const reason = data.reason ? [element("p", { class: "faint" }, reasonOf(data))] : [];
  const isTree = JSON_KINDS.includes(data.kind) && !data.is_cut;
  const content = data.kind === "null" ? [] : isTree ? jsonTree(title, data.text) : [longText(title, data.text)];
  return [element("h3", {}, `${title} `, element("small", {}, kind)), ...reason, ...content];
}

// A row that opens to the whole record.
function recordRows(topic, record, life, format) {
  const more = element("button", { type: "button", "aria-expanded": "false", "aria-label": `Record ${record.partition}:${record.offset}` }, "▸");
  const headers = record.headers.length ? element("span", { class: "badge" }, plural(record.headers.length, "header")) : "";
  const head = element(
    "tr",
    { "data-record": `${record.partition}:${record.offset}` },
    element("td", {}, more),
    element("th", { scope: "row", class: "number" }, `${record.partition}:${record.offset}`),
    element("td", { class: "nowrap" }, shownTime(record)),
    element("td", {}, shownData(record.key)),
    element("td", {}, shownData(record.value), headers, ...transactionMark(record)),
  );
  const cell = element("td", { colspan: 5 });
  const detail = element("tr", { class: "detail", hidden: true }, cell);
  more.addEventListener("click", async () => {
    detail.hidden = !detail.hidden;
    more.setAttribute("aria-expanded", String(!detail.hidden));
    setText(more, detail.hidden ? "▸" : "▾");
    if (detail.hidden) return;
    cell.replaceChildren(element("p", { class: "faint" }, "reading"));
    const asked = { partition: record.partition, offset: record.offset, format };
    const found = await life.run(() => ask(`topics/${encodeURIComponent(topic)}/record`, asked, life.signal));
    if (!found) return;
    const again = link(`#/topics/${encodeURIComponent(topic)}/produce?from=${record.partition}:${record.offset}`, "Produce it again");
    const save = element("button", { type: "button" }, "Copy as JSON");
    save.addEventListener("click", async () => {
      await navigator.clipboard.writeText(found.line);
      setText(save, "Copied");
    });
    const download = element("button", { type: "button" }, "Download");
    download.addEventListener("click", () => {
      const file = URL.createObjectURL(new Blob([found.line, "\n"], { type: "application/json" }));
      element("a", { href: file, download: `${topic}-${record.partition}-${record.offset}.json` }).click();
      URL.revokeObjectURL(file);
    });
    cell.replaceChildren(
      element("p", {}, `${shownTime(found)} ${zone()}, ${found.timestamp_type}  `, save, "  ", download, ...(life.about.read_only ? [] : ["  ", again])),
      ...(found.transaction ? [element("p", { class: TRANSACTIONS[found.transaction][0] }, TRANSACTIONS[found.transaction][2])] : []),
      ...whole("Key", found.key),
      ...whole("Value", found.value),
      ...found.headers.flatMap(([name, content]) => whole(`Header ${name}`, content)),
    );
  });
  return [head, detail];
}

export function show(main, life, topic) {
  const path = `topics/${encodeURIComponent(topic)}`;
  const start = choice("start", STARTS, "latest");
  const at = element("input", { name: "at", placeholder: "offset", size: 24 });
  const atField = field("Which", at);
  const partitions = element("input", { name: "partitions", placeholder: "all", size: 8, inputmode: "numeric" });
  const format = choice("format", FORMATS, "auto");
  const read = element("button", { class: "main" }, "Read");
  const form = element("form", { class: "bar" }, field("Start at", start), atField, field("Partitions, such as 0,2", partitions), field("Format", format), read);
  const text = element("input", { type: "search", name: "text", autocomplete: "off", placeholder: "in keys, values, headers" });
  const find = element("button", {}, "Search");
  const live = element("button", { type: "button", "aria-pressed": "false" }, "Follow live");
  const pause = element("button", { type: "button", "aria-pressed": "false", hidden: true }, "Pause");
  const searching = element("form", { class: "bar", role: "search" }, field("Search from there", text), check("case", "Match case"), find, live, pause);
  const bar = element("progress", { max: 1, value: 0, hidden: true, "aria-label": "Share of the records that were looked at" });
  const cancel = element("button", { type: "button", hidden: true }, "Cancel");
  const told = element("span", { role: "status" });
  const newer = element("button", { type: "button", disabled: true }, "‹ Newer");
  const older = element("button", { type: "button", disabled: true }, "Older ›");
  const body = element("tbody");
  const heads = [["Open"], ["Partition:offset", "number"], [`Time, ${zone()}`], ["Key"], ["Value"]].map(([title, kind]) => element("th", { scope: "col", class: kind }, title));
  const pages = element("div", { class: "pages" }, newer, older, told, bar, cancel);
  // On a phone the records come first.
  const wide = matchMedia("(min-width: 40.01rem)");
  const filters = element("details", { class: "filters", open: wide.matches }, element("summary", {}, "Start, format, search"), form, searching);
  wide.addEventListener("change", () => { filters.open = wide.matches; }, { signal: life.signal });
  main.append(
    element("h1", {}, topic),
    tabs(topic, "Records", life),
    filters,
    pages,
    element("div", { class: "scroll" }, element("table", { class: "records", "aria-label": "Records" }, element("thead", {}, element("tr", {}, ...heads)), body)),
  );
  let stream = null;
  let page = null;
  let held = []; // records that came while the view was paused, the newest first

  function stop() {
    stream?.close();
    stream = null;
    bar.hidden = cancel.hidden = pause.hidden = true;
    pause.setAttribute("aria-pressed", "false");
    setText(pause, "Pause");
    held = [];
    setText(live, "Follow live");
    live.setAttribute("aria-pressed", "false");
  }
  life.onLeave(stop);

  const rowsOf = (record) => recordRows(topic, record, life, format.value);

  function asked() {
    const found = { partitions: partitions.value.replaceAll(" ", ""), format: format.value, start: start.value };
    if (start.value === "offset") found.at = at.value.trim();
    if (start.value === "time") {
      const moment = parseTime(at.value);
      if (Number.isNaN(moment)) return null;
      found.at = moment;
    }
    return found;
  }

  function wanted() {
    const found = asked();
    if (!found) body.replaceChildren(element("tr", {}, element("td", { colspan: 5 }, notice(`A time is written like 2013-06-15 06:00, in ${zone()}.`))));
    return found;
  }

  async function load(extra = {}) {
    stop();
    const what = wanted();
    if (!what) return;
    const found = await life.run(() => ask(`${path}/records`, { ...what, ...extra }, life.signal));
    if (!found) return;
    page = found;
    body.replaceChildren(...found.rows.flatMap(rowsOf));
    older.disabled = !found.older;
    newer.disabled = !found.newer;
    const all = Object.values(found.partitions).reduce((sum, each) => sum + each.end - each.first, 0);
    const unmarked = found.unmarked_because ? `; open and aborted ones are not marked: ${found.unmarked_because}` : "";
    setText(told, found.rows.length ? `${records(found.rows.length)}, of ${count(all)} offsets${unmarked}` : "no records here");
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    load();
  });
  older.addEventListener("click", () => load({ before: page.older }));
  newer.addEventListener("click", () => load({ after: page.newer }));
  const showAt = () => {
    atField.hidden = !["offset", "time"].includes(start.value);
    at.placeholder = start.value === "time" ? `2013-06-15 06:00 (${zone()})` : "0";
  };
  start.addEventListener("change", showAt);
  showAt();

  searching.addEventListener("submit", (event) => {
    event.preventDefault();
    stop();
    const what = wanted();
    if (!what || !text.value) return;
    // From the newest on there is nothing to search: all of it, then.
    const from = what.start === "latest" ? { ...what, start: "earliest" } : what;
    body.replaceChildren();
    older.disabled = newer.disabled = true;
    bar.hidden = cancel.hidden = false;
    bar.value = 0;
    setText(told, "searching");
    stream = new EventSource(addressOf(`${path}/search`, { ...from, text: text.value, case: searching.elements.case.checked }));
    const tell = (state, end) => {
      bar.value = state.share;
      setText(told, `${count(state.hits)} found in ${records(state.scanned)}, ${bytes(state.bytes)}${end}`);
    };
    stream.addEventListener("hit", ({ data }) => {
      const rows = rowsOf(JSON.parse(data));
      body.append(...rows);
    });
    stream.addEventListener("progress", ({ data }) => tell(JSON.parse(data), ""));
    stream.addEventListener("done", ({ data }) => {
      const state = JSON.parse(data);
      stop();
      tell(state, state.is_complete ? "; that is all" : "; there may be more");
    });
    failing();
  });
  cancel.addEventListener("click", () => {
    stop();
    setText(told, `${told.textContent}; cancelled`);
  });

  function showHeld() {
    body.prepend(...held.flatMap(rowsOf));
    held = [];
    while (body.rows.length > 2 * LIVE_KEPT) body.lastElementChild.remove();
  }

  pause.addEventListener("click", () => {
    const isPaused = pause.getAttribute("aria-pressed") === "false";
    pause.setAttribute("aria-pressed", String(isPaused));
    setText(pause, isPaused ? "Go on" : "Pause");
    if (!isPaused) showHeld();
  });

  live.addEventListener("click", () => {
    const wasLive = live.getAttribute("aria-pressed") === "true";
    stop();
    if (wasLive) {
      setText(told, "stopped following");
      return;
    }
    const what = wanted();
    if (!what) return;
    body.replaceChildren();
    older.disabled = newer.disabled = true;
    live.setAttribute("aria-pressed", "true");
    setText(live, "Stop following");
    setText(told, "connecting");
    let seen = 0;
    let skipped = 0;
    stream = new EventSource(addressOf(`${path}/follow`, { partitions: what.partitions, format: what.format }));
    stream.addEventListener("records", ({ data }) => {
      const found = JSON.parse(data);
      seen += found.rows.length;
      skipped += found.skipped;
      held = [...found.rows.reverse(), ...held].slice(0, LIVE_KEPT);
      if (pause.getAttribute("aria-pressed") === "false") showHeld();
      const paused = held.length ? `, ${count(held.length)} of them waiting` : "";
      setText(told, `following: ${records(seen)}${paused}${skipped ? `, ${count(skipped)} skipped, as too many came at once` : ""}`);
    });
    pause.hidden = false;
    failing();
  });

  function failing() {
    stream.addEventListener("problem", ({ data }) => {
      stop();
      setText(told, JSON.parse(data).error);
    });
    stream.addEventListener("error", () => {
      if (!stream) return;
      stop();
      setText(told, "the connection to the console ended");
    });
  }

  load();
}
