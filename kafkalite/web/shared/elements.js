// What the page is built of. Names come from clients, so everything is put in as text, never as markup.

const FLASH_MS = 2500;
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

export const byId = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export function setText(target, text) {
  if (target.textContent !== String(text)) target.textContent = text;
}

export function flash(target) {
  if (!reducedMotion.matches) target.animate([{ backgroundColor: "var(--flash)" }, {}], { duration: FLASH_MS, easing: "ease-out" });
}

export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

export function perSecond(bytes, seconds) {
  let amount = Math.max(0, bytes / seconds);
  for (const unit of ["B/s", "kB/s", "MB/s"]) {
    if (amount < 1000 || unit === "MB/s") return `${amount < 10 && unit !== "B/s" ? amount.toFixed(1) : Math.round(amount)} ${unit}`;
    amount /= 1000;
  }
}
