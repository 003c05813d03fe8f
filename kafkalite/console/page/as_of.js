// As of when what is shown was true: in the header of every screen, and amber when a part of it is older than it should be. Ages go on
// by the browser's own clock, so a console that does not answer any more is seen, too.

import { byId, setText } from "./elements.js";
import { clock, zone } from "./times.js";

let parts = new Map();
let wasLate = "";

export function forgetAges() {
  parts = new Map();
  show();
}

export function takeAges(list) {
  const received = performance.now();
  for (const each of list) parts.set(each.name, { ...each, received });
  show();
}

const ageOf = (part) => (part.age_ms === null ? Infinity : part.age_ms + performance.now() - part.received);

const lateOnes = () => [...parts.values()].filter((part) => part.limit_ms !== null && ageOf(part) > part.limit_ms);

// The names of the parts that are older than they should be.
export const late = () => lateOnes().map((part) => part.name);

function ageText(age_ms) {
  const seconds = Math.round(age_ms / 1000);
  return seconds < 120 ? `${seconds} s` : seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

const about = (part) => {
  const when = part.time_ms === null ? "never known" : `as of ${clock(part.time_ms)} ${zone()}, ${ageText(ageOf(part))} old`;
  return `${part.name} ${when}${part.problem ? `: ${part.problem}` : ""}`;
};

function show() {
  const target = byId("as-of");
  const known = [...parts.values()].filter((part) => part.time_ms !== null);
  const stale = lateOnes();
  target.classList.toggle("late", stale.length > 0);
  if (stale.length) setText(target, `⚠ ${about(stale[0])}${stale.length > 1 ? `; and ${stale.length - 1} more` : ""}`);
  else setText(target, known.length ? `as of ${clock(Math.min(...known.slice(0, 2).map((part) => part.time_ms)))} ${zone()}` : "");
  target.title = [...parts.values()].map(about).join("\n");
  const names = late().join();
  if (names !== wasLate) {
    wasLate = names;
    document.dispatchEvent(new CustomEvent("lateness"));
  }
}

setInterval(show, 500);
