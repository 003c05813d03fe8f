"use strict";
// Below each result of the search stands where its words are. The texts come as a script, so that it works from a file, too: pages that
// were opened from a file may not fetch others.

(() => {
  const results = document.getElementById("search-results");
  const query = new URLSearchParams(location.search).get("q");
  if (!results || !query) return;

  const length = 220; // characters of an excerpt
  const words = [...new Set(splitQuery(query.toLowerCase()))];
  const stems = words.map((word) => new Stemmer().stemWord(word)).map((stem, at) => (words[at].startsWith(stem) ? stem : words[at]));

  /** Where in a text most of the words are near each other; -1 where none is. */
  const findPlace = (text) => {
    const lower = text.toLowerCase();
    let best = -1;
    let most = 0;
    for (const stem of stems) {
      for (let at = lower.indexOf(stem), seen = 0; at >= 0 && seen < 100; at = lower.indexOf(stem, at + 1), seen++) {
        const near = lower.slice(at, at + length);
        const count = stems.filter((other) => near.includes(other)).length;
        if (count > most) [best, most] = [at, count];
      }
    }
    return best;
  };

  const excerpt = (text) => {
    const place = findPlace(text);
    const begin = place < 40 ? 0 : text.indexOf(" ", place - 40) + 1;
    const shown = text.slice(begin, begin + length);
    const paragraph = document.createElement("p");
    paragraph.className = "context";
    paragraph.append(begin ? "… " : "");
    const lower = shown.toLowerCase();
    let done = 0;
    while (done < shown.length) {
      const found = stems.map((stem) => [lower.indexOf(stem, done), stem.length]).filter(([at]) => at >= 0);
      if (!found.length) break;
      const [at, least] = found.sort(([one, long], [other, short]) => one - other || short - long)[0];
      const size = least + shown.slice(at + least).match(/^[\p{Letter}\p{Number}]*/u)[0].length;
      const mark = document.createElement("mark");
      mark.textContent = shown.slice(at, at + size);
      paragraph.append(shown.slice(done, at), mark);
      done = at + size;
    }
    paragraph.append(shown.slice(done), begin + length < text.length ? " …" : "");
    return paragraph;
  };

  const addExcerpts = () => {
    for (const link of results.querySelectorAll("li > a:not([data-excerpt])")) {
      link.dataset.excerpt = "";
      const page = link.getAttribute("href").split("#")[0].replace(/\.html$/, "");
      const text = window.PAGE_TEXTS?.[page];
      if (text) link.parentElement.append(excerpt(text));
    }
  };

  const texts = document.createElement("script");
  texts.src = `${document.documentElement.dataset.content_root}_static/page_texts.js`;
  texts.addEventListener("load", () => {
    addExcerpts();
    new MutationObserver(addExcerpts).observe(results, { childList: true, subtree: true });
  });
  document.body.append(texts);
})();
