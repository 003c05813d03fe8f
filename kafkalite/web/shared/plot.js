// Plots of figures over time, as SVG. Each has a caption with the newest figures, which is also what is read aloud; the figures at a
// moment are shown under the pointer, or with the arrow keys.

import { element, setText } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 100;
const LEAST_MS = 60e3;

function svgElement(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const clock = (time_ms) => new Date(time_ms).toLocaleTimeString([], { hour12: false });

// A round number at or above the greatest value: 1, 2 or 5 times a power of ten.
export function roundTop(greatest) {
  if (!(greatest > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(greatest));
  return [1, 2, 5, 10].map((times) => times * power).find((top) => top >= greatest);
}

// The path of a series; a figure that is not known (null) leaves a gap.
export function pathOf(times, values, from, to, top) {
  const parts = [];
  let isOpen = false;
  for (let index = 0; index < times.length; index += 1) {
    const value = values[index];
    if (value === null || value === undefined) {
      isOpen = false;
      continue;
    }
    const x = to > from ? ((times[index] - from) / (to - from)) * WIDTH : WIDTH;
    const y = HEIGHT - (Math.min(value, top) / top) * HEIGHT;
    parts.push(`${isOpen ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`);
    if (!isOpen && (values[index + 1] === null || values[index + 1] === undefined)) parts.push(`h1`);
    isOpen = true;
  }
  return parts.join("");
}

// A figure with `show({times, values})`: ms since 1970, and by each of `names` as many figures or nulls. `format` makes text of one.
export function plot(title, names, format, { span_ms = 3600e3 } = {}) {
  const output = element("output", { "aria-live": "off" });
  const caption = element("figcaption", {}, element("b", {}, title));
  if (names.length > 1) caption.append(...names.map((name, index) => element("span", { class: `name name-${index + 1}` }, name.replaceAll("_", " "))));
  caption.append(output);
  const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const y of [0, HEIGHT / 2, HEIGHT]) svg.append(svgElement("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y }));
  const cursor = svgElement("line", { class: "cursor", y1: 0, y2: HEIGHT, visibility: "hidden" });
  const paths = names.map((_, index) => svgElement("path", { class: `series-${index + 1}` }));
  svg.append(cursor, ...paths);
  const left = element("span");
  const middle = element("span");
  const right = element("span");
  const figure = element("figure", { class: "plot", tabindex: "0", "aria-label": title }, caption, svg, element("div", { class: "scale" }, left, middle, right));
  let data = { times: [], values: {} };
  let looked = null; // the index that is looked at, null for the newest
  let range = [0, 1];

  function tell() {
    const at = looked ?? data.times.length - 1;
    const time_ms = data.times[at];
    const figures = names.map((name) => data.values[name]?.[at]);
    const texts = figures.map((value) => (value === null || value === undefined ? "–" : format(value)));
    setText(output, `${looked === null || time_ms === undefined ? "" : `${clock(time_ms)}  `}${texts.join(" · ")}`);
    cursor.setAttribute("visibility", looked === null ? "hidden" : "visible");
    if (looked !== null) {
      const x = ((time_ms - range[0]) / (range[1] - range[0] || 1)) * WIDTH;
      cursor.setAttribute("x1", x);
      cursor.setAttribute("x2", x);
    }
  }

  function nearest(time_ms) {
    let best = 0;
    data.times.forEach((each, index) => {
      if (Math.abs(each - time_ms) < Math.abs(data.times[best] - time_ms)) best = index;
    });
    return best;
  }

  svg.addEventListener("pointermove", (event) => {
    if (!data.times.length) return;
    const box = svg.getBoundingClientRect();
    looked = nearest(range[0] + ((event.clientX - box.left) / box.width) * (range[1] - range[0]));
    tell();
  });
  svg.addEventListener("pointerleave", () => {
    looked = null;
    tell();
  });
  figure.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !data.times.length) return;
    event.preventDefault();
    looked = Math.max(0, Math.min(data.times.length - 1, (looked ?? data.times.length - 1) + step));
    tell();
  });
  figure.addEventListener("blur", () => {
    looked = null;
    tell();
  });

  figure.show = (found) => {
    data = found;
    const last = data.times.at(-1) ?? Date.now();
    const first = data.times[0] ?? last - 60e3;
    range = [Math.max(Math.min(first, last - LEAST_MS), last - span_ms), last];
    const all = names.flatMap((name) => data.values[name] ?? []).filter((value) => value !== null);
    const top = roundTop(Math.max(0, ...all));
    names.forEach((name, index) => paths[index].setAttribute("d", pathOf(data.times, data.values[name] ?? [], ...range, top)));
    setText(left, clock(range[0]));
    setText(middle, `top ${format(top)}`);
    setText(right, clock(range[1]));
    figure.dataset.points = String(data.times.length);
    if (looked !== null && looked >= data.times.length) looked = null;
    tell();
  };
  tell();
  return figure;
}
