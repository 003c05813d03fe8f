// Watches over the loading of the page's scripts. A browser breaks that off when the network of its machine changes, as it does with each
// container that starts, and never loads a module again within a page: so the page is loaded again, a few times, later and later.
"use strict";

const LOADS = 5;
const FIRST_WAIT_MS = 300;
const KEY = "kafkalite-loads";

const isOfScripts = (event) => event.target instanceof HTMLScriptElement && event.target.type === "module";

// Neither event bubbles, so both are caught on their way down, by the document: that of a load does not pass the window.
document.addEventListener("load", (event) => isOfScripts(event) && sessionStorage.removeItem(KEY), true);
document.addEventListener(
  "error",
  (event) => {
    if (!isOfScripts(event)) return;
    const loads = Number(sessionStorage.getItem(KEY));
    if (loads < LOADS) {
      sessionStorage.setItem(KEY, String(loads + 1));
      setTimeout(() => location.reload(), FIRST_WAIT_MS * 2 ** loads);
      return;
    }
    sessionStorage.removeItem(KEY);
    const lost = document.getElementById("lost");
    lost.textContent = "The console does not answer: the scripts of this page could not be loaded.";
    lost.hidden = false;
  },
  true,
);
