// Plots of the broker's last hour. They have figures from before the page was opened: the broker keeps them.

import { byId, perSecond } from "./elements.js";
import { plot } from "./plot.js";

const EVERY_MS = 10000;
const whole = (number) => Math.round(number).toLocaleString("en");
const milliseconds = (number) => (number >= 1000 ? `${Number((number / 1000).toPrecision(2))} s` : `${number < 10 ? number.toFixed(1) : Math.round(number)} ms`);

const PLOTS = [
  ["Requests a second", { requests: "requests_per_s" }, whole],
  ["Records of clients", { in: "bytes_in_per_s", out: "bytes_out_per_s" }, (bytes) => perSecond(bytes, 1)],
  ["Latency, 99 of 100 at most", { produce: "produce_p99_ms", "others, but fetches": "other_p99_ms" }, milliseconds],
  ["Under-replicated, led here", { partitions: "under_replicated" }, whole],
  ["Lag of groups coordinated here", { records: "lag" }, whole],
];

const figures = PLOTS.map(([title, names, format]) => [plot(title, Object.keys(names), format), names]);

async function load() {
  try {
    const { times, values } = await (await fetch(`${location.origin}/history.json`)).json();
    for (const [figure, names] of figures) {
      figure.show({ times, values: Object.fromEntries(Object.entries(names).map(([name, key]) => [name, values[key]])) });
    }
  } catch {
    // The broker does not answer, which the page says already; the plots stay as they are.
  }
  setTimeout(load, EVERY_MS);
}

byId("plots").append(...figures.map(([figure]) => figure));
load();
