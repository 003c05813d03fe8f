// The page's program. It gets the whole status once, then changes of it (server-sent events, see live.py and status.py), and
// touches only what they are about: a cluster of thousands of partitions shows an election without being drawn again.

import { note, noteBrokers, noteController, noteTopic } from "./changes.js";
import { byId, element, flash, perSecond, plural, setText } from "./elements.js";

const SPOKEN_VERSION = 1;
const EXPAND_UP_TO = 40; // partitions, in clusters that small topics begin expanded
const RETRY_MS = 2000;

const numerically = ([a], [b]) => Number(a) - Number(b);

let status = null;
let lastTraffic = null;
const rows = new Map(); // topic name -> its <tbody>
const expanded = new Set();

// What is wrong with a partition

const isOffline = (partition) => partition.leader < 0;
const isUnder = (partition) => partition.isr.length < partition.replicas.length;

function tally(topic) {
  let offline = 0;
  let under = 0;
  const leaders = new Map();
  for (const partition of Object.values(topic.partitions)) {
    if (isOffline(partition)) offline += 1;
    else leaders.set(partition.leader, (leaders.get(partition.leader) || 0) + 1);
    if (isUnder(partition)) under += 1;
  }
  return { offline, under, leaders };
}

// Tiles

function showTile(id, text, level = "") {
  const tile = byId(`tile-${id}`);
  setText(tile.querySelector("dd"), text);
  if (tile.className !== level) tile.className = level;
}

function showTiles() {
  const { counts, controller, brokers, zookeeper } = status;
  if (brokers) {
    const all = Object.values(brokers);
    const up = all.filter((broker) => broker.alive).length;
    showTile("brokers", `${up} of ${all.length}`, up < all.length ? "bad" : "");
  }
  if (controller) {
    const known = controller.id >= 0 && brokers?.[controller.id]?.alive;
    showTile("controller", controller.id >= 0 ? controller.id : "none", known ? "" : "bad");
  }
  if (counts) {
    showTile("topics", counts.topics);
    showTile("partitions", counts.partitions);
    showTile("offline", counts.offline_partitions, counts.offline_partitions ? "bad" : "");
    showTile("under", counts.under_replicated_partitions, counts.under_replicated_partitions ? "warn" : "");
    const problems = counts.offline_partitions || counts.under_replicated_partitions;
    document.title = `${problems ? "⚠ " : ""}kafkalite${status.broker.id >= 0 ? ` ${status.broker.id}` : ""}`;
  }
  if (zookeeper) showTile("zookeeper", zookeeper.session, zookeeper.session === "connected" ? "" : "bad");
}

function showTraffic(time_ms) {
  const { traffic } = status;
  if (!traffic) return;
  if (lastTraffic && time_ms > lastTraffic.time_ms) {
    const seconds = (time_ms - lastTraffic.time_ms) / 1000;
    showTile("in", perSecond(traffic.bytes_in - lastTraffic.bytes_in, seconds));
    showTile("out", perSecond(traffic.bytes_out - lastTraffic.bytes_out, seconds));
  }
  lastTraffic = { time_ms, ...traffic };
}

// Brokers

function brokerRow(id, broker) {
  const isController = status.controller?.id === Number(id);
  const state = element("td", {}, element("span", { class: broker.alive ? "good-text" : "bad-text" }, broker.alive ? "up" : "down"));
  if (isController) state.append(element("span", { class: "badge controller" }, "controller"));
  if (status.broker.id === Number(id)) state.append(element("span", { class: "badge" }, "this page"));
  const behind = broker.replicas - broker.in_sync;
  return element(
    "tr",
    { class: broker.alive ? null : "down", "data-broker": id, "data-alive": String(broker.alive), "data-controller": String(isController) },
    element("th", { scope: "row" }, id),
    state,
    element("td", {}, element("code", {}, broker.endpoints.join(", ") || "–")),
    element("td", {}, broker.rack ?? "–"),
    element("td", { class: "number" }, broker.leaders),
    element("td", { class: `number${behind ? " warn-text" : ""}` }, `${broker.in_sync} of ${broker.replicas}`),
  );
}

function showBrokers() {
  const body = byId("brokers").tBodies[0];
  body.replaceChildren(...Object.entries(status.brokers).sort(numerically).map(([id, broker]) => brokerRow(id, broker)));
}

// Topics

function topicBody(name) {
  const id = `topic-${rows.size}`;
  const toggle = element("button", { class: "toggle", type: "button", "aria-expanded": "false", "aria-controls": id }, name);
  const body = element(
    "tbody",
    { "data-topic": name },
    element("tr", {}, element("th", { scope: "row" }, toggle), element("td", { class: "number" }), element("td"), element("td")),
    element("tr", { class: "detail", id, hidden: true }, element("td", { colspan: 4 })),
  );
  toggle.addEventListener("click", () => setExpanded(name, !expanded.has(name)));
  return body;
}

function setExpanded(name, isExpanded) {
  if (isExpanded) expanded.add(name);
  else expanded.delete(name);
  const [head, detail] = rows.get(name).rows;
  head.querySelector("button").setAttribute("aria-expanded", String(isExpanded));
  detail.hidden = !isExpanded;
  if (isExpanded) showPartitions(name);
  else detail.cells[0].replaceChildren();
}

function showTopic(name) {
  const topic = status.topics[name];
  const cells = rows.get(name).rows[0].cells;
  const { offline, under, leaders } = tally(topic);
  const troubles = [];
  if (offline) troubles.push(element("span", { class: "bad-text" }, `${offline} offline `));
  if (under) troubles.push(element("span", { class: "warn-text" }, `${under} under-replicated`));
  setText(cells[1], Object.keys(topic.partitions).length);
  cells[2].replaceChildren(...(troubles.length ? troubles : [element("span", { class: "good-text" }, "ok")]));
  const shares = [...leaders].sort(numerically).map(([broker, count]) => `${broker} × ${count}`);
  setText(cells[3], shares.join(", ") || "nobody");
  rows.get(name).dataset.health = offline ? "offline" : under ? "under-replicated" : "ok";
}

function partitionItem(number, partition) {
  const replicas = partition.replicas.map((broker) => {
    const inSync = partition.isr.includes(broker);
    const kind = broker === partition.leader ? " leads" : inSync ? "" : " behind";
    return element("span", { class: `replica${kind}`, title: inSync ? "in sync" : "not in sync" }, broker);
  });
  const offline = isOffline(partition);
  return element(
    "li",
    {
      class: offline ? "offline" : isUnder(partition) ? "under" : null,
      "data-partition": number,
      "data-leader": partition.leader,
      "data-isr": partition.isr.join(","),
    },
    element("span", { class: "index" }, number),
    element("span", { class: offline ? "leader bad-text" : "leader" }, offline ? "no leader" : `leader ${partition.leader}`),
    element("span", { "aria-label": `in sync ${partition.isr.join(", ") || "none"} of ${partition.replicas.join(", ")}` }, ...replicas),
    element("span", { class: "epoch", title: "leader epoch" }, `e${partition.leader_epoch}`),
  );
}

function showPartitions(name, only = null) {
  const cell = rows.get(name).rows[1].cells[0];
  const { partitions } = status.topics[name];
  let list = cell.firstElementChild;
  if (!list || !only) {
    list = element("ol", { class: "partitions", "aria-label": `Partitions of ${name}: number, leader, replicas, leader epoch` });
    list.append(...Object.entries(partitions).sort(numerically).map(([number, each]) => partitionItem(number, each)));
    cell.replaceChildren(list);
    return;
  }
  for (const [number, partition] of Object.entries(only)) {
    const item = partitionItem(number, partition);
    const shown = list.querySelector(`[data-partition="${number}"]`);
    if (shown) shown.replaceWith(item);
    else list.append(item);
    flash(item);
  }
}

function isShown(name) {
  const wanted = byId("filter").value.trim().toLowerCase();
  const topic = status.topics[name];
  if (topic.internal && !byId("internal").checked && !(wanted && name.toLowerCase().includes(wanted))) return false;
  if (byId("only-unwell").checked && rows.get(name).dataset.health === "ok") return false;
  return name.toLowerCase().includes(wanted);
}

function applyFilters() {
  let shown = 0;
  for (const [name, body] of rows) {
    body.hidden = !isShown(name);
    if (!body.hidden) shown += 1;
  }
  setText(byId("shown"), shown === rows.size ? "" : `${shown} of ${plural(rows.size, "topic")} shown`);
}

function addTopic(name) {
  const body = topicBody(name);
  rows.set(name, body);
  const following = [...rows.keys()].filter((other) => other > name).sort()[0];
  byId("topics").insertBefore(body, following === undefined ? null : rows.get(following));
}

function removeTopic(name) {
  rows.get(name)?.remove();
  rows.delete(name);
  expanded.delete(name);
}

function showAllTopics() {
  for (const body of rows.values()) body.remove();
  rows.clear();
  const names = Object.keys(status.topics).sort();
  const users = names.filter((name) => !status.topics[name].internal);
  const size = users.reduce((sum, name) => sum + Object.keys(status.topics[name].partitions).length, 0);
  for (const name of names) {
    const body = topicBody(name);
    rows.set(name, body);
    showTopic(name);
  }
  byId("topics").append(...rows.values());
  const open = expanded.size ? [...expanded].filter((name) => rows.has(name)) : size <= EXPAND_UP_TO ? users : [];
  expanded.clear();
  for (const name of open) setExpanded(name, true);
  applyFilters();
}

// Groups

function groupRow(group) {
  const topics = Object.entries(group.topics).map(([topic, { lag, unknown }]) => `${topic} ${lag}${unknown ? "+?" : ""}`);
  return element(
    "tr",
    { "data-group": group.id, "data-lag": group.lag, "data-coordinator": group.coordinator },
    element("th", { scope: "row" }, group.id),
    element("td", {}, group.state),
    element("td", { class: "number" }, group.members),
    element("td", { class: "number" }, group.coordinator),
    element("td", { class: `number${group.lag ? " warn-text" : ""}` }, group.lag),
    element("td", {}, topics.join(", ") || "–"),
  );
}

function showGroups() {
  byId("groups").tBodies[0].replaceChildren(...status.groups.map(groupRow));
  byId("no-groups").hidden = status.groups.length > 0;
  setText(byId("groups-omitted"), status.groups_omitted ? `${status.groups_omitted} with less lag are left out` : "");
}

// What the broker says

function takeStatus(whole) {
  const before = status;
  status = whole;
  if (before?.brokers && whole.brokers) {
    noteController(whole.time_ms, before.controller, whole.controller);
    noteBrokers(whole.time_ms, before.brokers, whole.brokers);
    for (const [name, topic] of Object.entries(whole.topics)) noteTopic(whole.time_ms, name, before.topics[name], topic);
  }
  showIdentity();
  showTiles();
  lastTraffic = null;
  showTraffic(whole.time_ms);
  if (whole.brokers) showBrokers();
  if (whole.topics) showAllTopics();
  if (whole.groups) showGroups();
}

function takeChange({ time_ms, topics, ...facts }) {
  const before = status;
  if (facts.controller && before.controller) noteController(time_ms, before.controller, facts.controller);
  if (facts.brokers && before.brokers) noteBrokers(time_ms, before.brokers, facts.brokers);
  status = { ...status, time_ms, ...facts };
  if (topics) takeTopics(time_ms, topics);
  if (facts.broker || facts.cluster_id) showIdentity();
  showTiles();
  if (facts.traffic) showTraffic(time_ms);
  if (status.brokers && (facts.brokers || facts.controller)) showBrokers();
  if (facts.groups || facts.groups_omitted !== undefined) showGroups();
}

function takeTopics(time_ms, topics) {
  status.topics ??= {};
  for (const [name, change] of Object.entries(topics)) {
    const before = status.topics[name];
    if (change === null) {
      delete status.topics[name];
      removeTopic(name);
      note(time_ms, `${name}: topic deleted`);
      continue;
    }
    noteTopic(time_ms, name, before, change);
    const isSame = before?.id === change.id;
    status.topics[name] = isSame ? { ...change, partitions: { ...before.partitions, ...change.partitions } } : change;
    if (!rows.has(name)) addTopic(name);
    showTopic(name);
    if (expanded.has(name)) showPartitions(name, isSame ? change.partitions : null);
    else flash(rows.get(name).rows[0]);
  }
  applyFilters();
}

function showIdentity() {
  setText(byId("cluster"), status.cluster_id || "–");
  setText(byId("self"), status.broker.id);
  setText(byId("version"), status.broker.kafkalite_version);
  showLink("live", status.broker.state === "running" ? "live" : `live, the broker is ${status.broker.state.replaceAll("_", " ")}`);
}

function showLink(state, text) {
  const link = byId("link");
  link.dataset.state = state;
  setText(link, text);
  document.body.classList.toggle("stale", state === "lost");
}

function connect() {
  const events = new EventSource("events");
  events.addEventListener("status", ({ data }) => {
    const whole = JSON.parse(data);
    if (whole.version !== SPOKEN_VERSION) {
      events.close();
      showLink("lost", "the broker was updated: reload this page");
    } else takeStatus(whole);
  });
  events.addEventListener("change", ({ data }) => takeChange(JSON.parse(data)));
  events.addEventListener("error", () => {
    showLink("lost", "connection lost, trying again");
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MS);
  });
}

byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("input", () => status?.topics && applyFilters());
for (const [button, isExpanded] of [["expand", true], ["collapse", false]]) {
  byId(button).addEventListener("click", () => {
    for (const [name, body] of rows) if (!body.hidden) setExpanded(name, isExpanded);
  });
}
connect();
