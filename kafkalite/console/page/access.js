// Who may do what: rules, users, quotas.

import { element } from "./elements.js";
import { ask, notice, table } from "./screen.js";

const RULES = [["Principal", "wrap"], ["May"], ["Operation"], ["Of"], ["Name", "wrap"], ["Pattern"], ["From"]];

export async function show(main, life) {
  main.append(element("h1", {}, "Access"));
  const found = await life.run(() => ask("permissions", {}, life.signal));
  if (!found) return;
  const section = (title, name, filled) => {
    main.append(element("h2", {}, title));
    if (found.problems[name]) main.append(notice(found.problems[name]));
    else main.append(found[name].length ? filled() : element("p", { class: "faint" }, "None."));
  };
  section("Rules", "acls", () => table(RULES, found.acls.map((each) => [
    each.principal, element("span", { class: each.permission === "Deny" ? "bad-text" : null }, each.permission === "Deny" ? "not" : "yes"),
    each.operation, each.resource_type, each.name, each.pattern, each.host,
  ])));
  section("Users with SCRAM credentials", "users", () => table([["User", "wrap"], ["Mechanisms", "wrap"]], found.users.map((each) => [each.user, each.credentials.join("; ")])));
  section("Quotas", "quotas", () => table([["Of", "wrap"], ["Quota", "wrap"]], found.quotas.map((each) => [
    each.entity, Object.entries(each.quotas).map(([name, value]) => `${name} = ${value}`).join(", "),
  ])));
}
