// JSON in colours: short in a list, or whole as a tree that folds. It is not parsed into JavaScript's values: numbers, escapes and repeated
// keys stay as they are written. Whatever is in it is put in as text. What is drawn at once is bounded, however long a record is.

import { element, setText } from "./elements.js";
import { bytes, count } from "./screen.js";

const COLOURED_PIECES = 60; // of a value in a list, of which three lines are seen
const FIRST_LINES = 60; // that are open at first
const UNFOLDED_LINES = 2000; // that "Unfold" opens at most
const LINES_AT_ONCE = 100; // of one object or array
const DEEPEST = 64; // that "Unfold" opens
const LONGEST = 2000; // characters of a string, or
const LONGEST_TEXT = 20000; // of a text, before somebody asks for the rest
const PUNCTUATION = new Set("{}[],:");
const isSpace = (sign) => sign === " " || sign === "\n" || sign === "\r" || sign === "\t";

// The position behind the string that begins at `at`, or the end of a text that was cut.
function endOfString(text, at) {
  for (let end = text.indexOf('"', at + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let first = end;
    while (text[first - 1] === "\\") first -= 1;
    if ((end - first) % 2 === 0) return end + 1;
  }
  return text.length;
}

function endOfWord(text, at) {
  let end = at + 1;
  while (end < text.length && text[end] !== '"' && !PUNCTUATION.has(text[end]) && !isSpace(text[end])) end += 1;
  return end;
}

// Calls `take(kind, part)` with the parts of a text until it returns false: kind is a sign of punctuation, "string", "word" or "space".
function scan(text, take) {
  let at = 0;
  while (at < text.length) {
    const sign = text[at];
    let kind = sign;
    let end = at + 1;
    if (sign === '"') [kind, end] = ["string", endOfString(text, at)];
    else if (isSpace(sign)) while (isSpace(text[end])) end += 1;
    else if (!PUNCTUATION.has(sign)) [kind, end] = ["word", endOfWord(text, at)];
    if (isSpace(sign)) kind = "space";
    const goesOn = take(kind, text.slice(at, end));
    at = end;
    if (goesOn === false) break;
  }
  return at;
}

// The tree: {key, text} is a string, number or word, {key, open, items, close} an object or an array.
function parse(text) {
  const top = { items: [] };
  const above = [];
  let parent = top;
  let key = null;
  scan(text, (kind, part) => {
    if (kind === "{" || kind === "[") {
      const made = { key, open: kind, items: [], close: "" };
      parent.items.push(made);
      above.push(parent);
      parent = made;
      key = null;
    } else if (kind === "}" || kind === "]") {
      parent.close = kind;
      parent = above.pop() ?? top;
    } else if (kind === ":") key = parent.items.pop()?.text ?? null;
    else if (kind !== "," && kind !== "space") {
      parent.items.push({ key, text: part });
      key = null;
    }
  });
  return top.items[0] ?? { key: null, text };
}

const kindOf = (text) => (text[0] === '"' ? "json-string" : /^[-\d]/.test(text) ? "json-number" : "json-word");

// A JSON text in colours as one line; the part behind the first pieces has none.
export function coloured(text) {
  const parts = [];
  let last = null;
  const end = scan(text, (kind, part) => {
    const made = kind === "string" || kind === "word" ? element("span", { class: kindOf(part) }, part) : part;
    if (kind === ":" && last) last.className = "json-key";
    if (kind !== "space") last = kind === "string" ? made : null;
    parts.push(made);
    return parts.length < COLOURED_PIECES;
  });
  return [...parts, text.slice(end)];
}

// A text of which the part behind `longest` is put in on request.
function shortened(text, longest) {
  if (text.length <= longest) return [text];
  const rest = element("button", { type: "button" }, `Show the rest, ${bytes(text.length - longest)}`);
  rest.addEventListener("click", () => {
    const more = document.createTextNode(text.slice(longest));
    const place = rest.closest("[tabindex]");
    rest.replaceWith(more);
    place?.focus();
  });
  return [text.slice(0, longest), rest];
}

export const longText = (title, text) => element("pre", { tabindex: "0", "aria-label": title }, ...shortened(text, LONGEST_TEXT));

const keyOf = (node) => (node.key === null ? [] : [element("span", { class: "json-key" }, ...shortened(node.key, LONGEST)), ": "]);

// The objects and arrays that are open, the outer ones first, as long as there is room for their lines.
function chooseOpen(root, lines) {
  const open = new Set();
  const waiting = [[root, 0]];
  let left = lines;
  for (let at = 0; at < waiting.length; at += 1) {
    const [node, depth] = waiting[at];
    const size = Math.min(node.items?.length ?? 0, LINES_AT_ONCE);
    if (!size || depth > DEEPEST || (size > left && node !== root)) continue;
    left -= size;
    open.add(node);
    for (let index = 0; index < size; index += 1) waiting.push([node.items[index], depth + 1]);
  }
  return open;
}

function draw(node, open, comma) {
  if (!node.items) return element("div", {}, ...keyOf(node), element("span", { class: kindOf(node.text) }, ...shortened(node.text, LONGEST)), comma);
  if (!node.items.length) return element("div", {}, ...keyOf(node), `${node.open}${node.close}${comma}`);
  const body = element("div", { class: "json-body" });
  const what = `${count(node.items.length)} ${node.open === "{" ? "field" : "item"}${node.items.length === 1 ? "" : "s"}`;
  const folded = element("span", { class: "json-folded" }, ` … ${node.close}${comma} `, element("small", {}, what));
  const made = element("details", {}, element("summary", {}, ...keyOf(node), node.open, folded), body, element("div", {}, `${node.close}${comma}`));
  const more = element("button", { type: "button" });
  let drawn = 0;

  function drawMore() {
    const end = Math.min(drawn + LINES_AT_ONCE, node.items.length);
    const lines = [];
    for (; drawn < end; drawn += 1) lines.push(draw(node.items[drawn], open, drawn + 1 < node.items.length ? "," : ""));
    if (!more.isConnected) body.append(more);
    more.before(...lines);
    setText(more, `${count(Math.min(LINES_AT_ONCE, node.items.length - drawn))} more of ${count(node.items.length - drawn)}`);
    if (drawn === node.items.length) {
      const hadFocus = document.activeElement === more;
      more.remove();
      if (hadFocus) made.firstElementChild.focus();
    }
  }

  more.addEventListener("click", drawMore);
  made.addEventListener("toggle", () => {
    if (made.open && !drawn) drawMore();
  });
  if (open.has(node)) {
    made.open = true;
    body.append(more);
    drawMore();
  }
  return made;
}

// JSON that is valid, as a tree in which objects and arrays fold; the first lines are open.
export function jsonTree(title, text) {
  const root = parse(text);
  const tree = element("div", { class: "json mono", tabindex: "0", role: "group", "aria-label": title });
  const show = (lines) => tree.replaceChildren(draw(root, chooseOpen(root, lines), ""));
  show(FIRST_LINES);
  if (!root.items?.some((each) => each.items?.length)) return [tree];
  const button = (name, lines) => {
    const made = element("button", { type: "button", "aria-label": `${name} ${title}` }, name);
    made.addEventListener("click", () => show(lines));
    return made;
  };
  return [element("div", { class: "json-tools" }, button("Unfold", UNFOLDED_LINES), button("Fold", 0)), tree];
}
