// The switch between clusters, where the console has several: each has its screens at an address of its own.

import { byId, element, setText } from "./elements.js";
import { ask } from "./screen.js";

const PAUSE_MS = 5000;

// The same screen of another cluster; what it was about may not be there.
function addressOf(name) {
  const screen = (location.hash.slice(1) || "/").split("?")[0].split("/")[1] ?? "";
  return `${new URL(`../${encodeURIComponent(name)}/`, `${location.origin}${location.pathname}`)}#/${screen}`;
}

function draw({ clusters, current }) {
  const items = clusters.map((each) => {
    const problem = each.problem ? [" ", element("span", { class: "warn-text" }, `⚠ ${each.problem}`)] : [];
    return element("li", {}, element("a", { href: addressOf(each.name), "aria-current": each.name === current ? "true" : null }, each.name), ` ${each.servers}`, ...problem);
  });
  const others = clusters.filter((each) => each.problem && each.name !== current).length;
  setText(byId("cluster"), `${current}${others ? " ⚠" : ""}`);
  byId("cluster").title = others ? `${others} of the other clusters have problems` : "Clusters";
  byId("cluster-list").replaceChildren(...items);
}

// Shows the switch where there are several clusters, and returns the name of this one, else null.
export async function showClusters() {
  const found = await ask("clusters");
  if (found.clusters.length < 2) return null;
  const menu = byId("clusters");
  menu.hidden = false;
  draw(found);
  const look = async () => {
    if (!document.hidden) await ask("clusters").then((each) => !menu.contains(document.activeElement) && draw(each)).catch(() => {});
    setTimeout(look, PAUSE_MS);
  };
  setTimeout(look, PAUSE_MS);
  const close = () => { menu.open = false; };
  addEventListener("hashchange", () => {
    for (const each of byId("cluster-list").querySelectorAll("a")) each.href = addressOf(each.textContent);
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    close();
    byId("cluster").focus();
  });
  document.addEventListener("click", (event) => {
    if (!menu.contains(event.target)) close();
  });
  return found.current;
}
