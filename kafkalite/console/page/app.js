// Which screen is shown: the part of the address behind # says it. A screen is a module with `show(main, life, ...names)`; what it
// began (timers, streams, requests) ends with its `life`.

import { show as access } from "./access.js";
import { forgetAges, takeAges } from "./as_of.js";
import { show as brokers, showOne as broker } from "./brokers.js";
import { showClusters } from "./clusters.js";
import { byId, element, setText } from "./elements.js";
import { show as groups, showOne as group } from "./groups.js";
import { show as messages } from "./messages.js";
import { show as nights } from "./nights.js";
import { show as overview } from "./overview.js";
import { show as produce } from "./produce.js";
import { ask, explainWait, notice } from "./screen.js";
import { toggleZone, zone } from "./times.js";
import { show as timeline } from "./timeline.js";
import { show as topic, showChange as topicChange, showGroups as topicGroups } from "./topic.js";
import { show as topics } from "./topics.js";
import { show as transactions } from "./transactions.js";
import { show as zookeeper } from "./zookeeper.js";

export const ROUTES = [
  [/^\/$/, overview, "Overview"],
  [/^\/topics$/, topics, "Topics"],
  [/^\/topics\/([^/]+)$/, topic, "Topic"],
  [/^\/topics\/([^/]+)\/records$/, messages, "Records"],
  [/^\/topics\/([^/]+)\/produce$/, produce, "Produce"],
  [/^\/topics\/([^/]+)\/groups$/, topicGroups, "Groups"],
  [/^\/topics\/([^/]+)\/change$/, topicChange, "Change"],
  [/^\/groups$/, groups, "Groups"],
  [/^\/groups\/([^/]+)$/, group, "Group"],
  [/^\/brokers$/, brokers, "Brokers"],
  [/^\/brokers\/(\d+)$/, broker, "Broker"],
  [/^\/timeline$/, timeline, "Timeline"],
  [/^\/zookeeper(\/.*)?$/, zookeeper, "ZooKeeper"],
  [/^\/transactions$/, transactions, "Transactions"],
  [/^\/access$/, access, "Access"],
  [/^\/nights$/, nights, "Spark jobs"],
];

let leave = () => {};
let problem = "";
const waits = new Set(); // calls that have not been answered yet
let cluster; // its name where there are several, null where there is one, undefined before that is known
export let about = {};

class Life {
  constructor(main) {
    this.main = main;
    this.controller = new AbortController();
    this.signal = this.controller.signal;
    this.about = about;
    this.isActing = false; // while an action is executed, which may delete what the screen is about
  }

  // Now and again, until the screen is left; a round begins when the one before it is done, and not while nobody sees the page.
  every(pause_ms, load) {
    const round = async () => {
      if (this.signal.aborted) return;
      if (!this.isActing && (!document.hidden || !load.wasCalled)) await load();
      load.wasCalled = true;
      if (!this.signal.aborted) timer = setTimeout(round, pause_ms);
    };
    let timer = 0;
    this.signal.addEventListener("abort", () => clearTimeout(timer));
    round();
  }

  // What `call` finds; a problem is shown above the screen, and goes when the next call succeeds. So is the reason of a long wait.
  async run(call) {
    const wait = { text: "" };
    waits.add(wait);
    const end = explainWait((text) => {
      wait.text = text;
      drawLost();
    });
    try {
      const found = await call();
      if (!this.signal.aborted) {
        showLost("");
        if (found?.as_of) takeAges(found.as_of);
      }
      return found;
    } catch (failure) {
      if (failure.name !== "AbortError" && !this.signal.aborted) {
        showLost(failure.message);
      }
      return null;
    } finally {
      end();
      waits.delete(wait);
      drawLost();
    }
  }

  onLeave(call) {
    this.signal.addEventListener("abort", call);
  }
}

function showLost(text) {
  problem = text;
  drawLost();
}

function drawLost() {
  const lost = byId("lost");
  const text = problem || [...waits].map((each) => each.text).find(Boolean) || "";
  setText(lost, text);
  lost.hidden = !text;
}

function route() {
  const [path, rest] = (location.hash.slice(1) || "/").split("?");
  if (!path.startsWith("/")) return; // the skip link
  leave();
  showLost("");
  forgetAges();
  const found = ROUTES.map(([pattern, show, title]) => [pattern.exec(path), show, title]).find(([match]) => match);
  const main = byId("main");
  main.replaceChildren();
  const life = new Life(main);
  life.query = new URLSearchParams(rest ?? "");
  leave = () => life.controller.abort();
  for (const each of byId("screens").querySelectorAll("a")) {
    const place = each.getAttribute("href").slice(1);
    if (place === path || (place !== "/" && path.startsWith(`${place}/`))) {
      each.setAttribute("aria-current", "page");
      byId("screens").scrollLeft = each.offsetLeft - byId("screens").offsetLeft - 32;
    } else each.removeAttribute("aria-current");
  }
  if (!found) {
    main.append(element("h1", {}, "There is nothing here"), notice(`No screen is called ${path}.`));
    return;
  }
  const [match, show, title] = found;
  const names = match.slice(1).map((part) => (part === undefined ? undefined : decodeURIComponent(part)));
  document.title = [names[0], title, cluster, "kafkalite console"].filter(Boolean).join(" · ");
  show(main, life, ...names);
}

// Colours: as the system has them, light, dark.

const THEMES = { system: ["◐", "as the system has them"], light: ["☀", "light"], dark: ["☾", "dark"] };

function showTheme(theme) {
  const [sign, text] = THEMES[theme];
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(byId("theme"), sign);
  byId("theme").setAttribute("aria-label", `Colours: ${text}`);
  byId("theme").title = `Colours: ${text}`;
}

let theme = localStorage.getItem("theme") in THEMES ? localStorage.getItem("theme") : "system";
showTheme(theme);
byId("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  theme = names[(names.indexOf(theme) + 1) % names.length];
  localStorage.setItem("theme", theme);
  showTheme(theme);
});

const zoneButton = byId("zone");
setText(zoneButton, zone());
zoneButton.addEventListener("click", () => {
  toggleZone();
  setText(zoneButton, zone());
  route();
});

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});

async function begin() {
  try {
    if (cluster === undefined) cluster = await showClusters();
    about = await ask("console");
  } catch (failure) {
    showLost(failure.message);
    setTimeout(begin, 2000);
    return;
  }
  showLost("");
  setText(byId("context"), cluster ? about.servers : about.context);
  setText(byId("version"), about.version);
  byId("read-only").hidden = !about.read_only;
  addEventListener("hashchange", () => {
    route();
    byId("main").focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  route();
}
begin();
