// Times as a person wants them: in UTC, or in the zone of the browser.

let isLocal = localStorage.getItem("zone") === "local";

export function toggleZone() {
  isLocal = !isLocal;
  localStorage.setItem("zone", isLocal ? "local" : "utc");
}

// "UTC", or what the browser's clock differs from it now.
export function zone() {
  if (!isLocal) return "UTC";
  const minutes = -new Date().getTimezoneOffset();
  const part = (number) => String(Math.abs(number)).padStart(2, "0");
  return `UTC${minutes < 0 ? "−" : "+"}${part(Math.trunc(minutes / 60))}:${part(minutes % 60)}`;
}

// Date shows what is within 275,000 years; another number, which no clock gave, stands for itself.
const isDate = (time_ms) => Math.abs(time_ms) <= 8.64e15;

export const isoTime = (time_ms) => (isDate(time_ms) ? new Date(time_ms).toISOString() : `${time_ms} ms`);

function shown(time_ms) {
  if (!isDate(time_ms)) return `${time_ms} ms`;
  const shift_ms = isLocal ? new Date(time_ms).getTimezoneOffset() * 60000 : 0;
  return isoTime(isDate(time_ms - shift_ms) ? time_ms - shift_ms : time_ms).replace("T", " ").replace("Z", "");
}

export const time = (time_ms) => (time_ms === -1 ? "–" : shown(time_ms));

// Only the time of the day, to the second.
export const clock = (time_ms) => shown(time_ms).slice(11, 19);

// What "2013-06-15 06:00" is in ms since 1970, in the zone that is shown unless it names one; NaN for what is no time.
export function parseTime(text) {
  const written = text.trim();
  if (/^\d{10,}$/.test(written)) return Number(written);
  if (/(Z|[+-]\d\d:?\d\d)$/.test(written)) return Date.parse(written.replace(" ", "T"));
  const full = /[T ]/.test(written) ? written.replace(" ", "T") : `${written}T00:00`;
  return Date.parse(isLocal ? full : `${full}Z`);
}
