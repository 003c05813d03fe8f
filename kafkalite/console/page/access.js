// Who may do what: ACLs, users, quotas.

import { action, textField } from "./action.js";
import { element } from "./elements.js";
import { ask, choice, field, notice, table } from "./screen.js";

const RULES = [["Principal", "wrap"], ["Permission"], ["Operation"], ["Resource type"], ["Name", "wrap"], ["Pattern"], ["Host"], [""]];
const USERS = [["User", "wrap"], ["Mechanisms", "wrap"]];
const MECHANISMS = [["SCRAM-SHA-512", "SCRAM-SHA-512"], ["SCRAM-SHA-256", "SCRAM-SHA-256"]];
const pairs = (names) => names.map((name) => [name, name]);

function ruleForm(life, operations, after) {
  const type = choice("resource_type", pairs(Object.keys(operations)), "Topic");
  const operation = choice("operation", pairs(operations.Topic ?? []), "Read");
  type.addEventListener("change", () => operation.replaceChildren(...operations[type.value].map((name) => element("option", { value: name }, name))));
  const fields = [
    textField("Principal", "principal", { required: true, placeholder: "User:ann, or User:* for everybody" }),
    field("Permission", choice("permission", pairs(["Allow", "Deny"]), "Allow")),
    field("Resource type", type),
    field("Operation", operation),
    textField("Name", "name", { placeholder: "orders, or * for all" }),
    field("Pattern", choice("pattern", [["Literal", "Literal: this name"], ["Prefixed", "Prefixed: names that begin so"]], "Literal")),
    textField("Host", "host", { placeholder: "any" }),
  ];
  return action(life, { name: "add-acl", heading: "Add an ACL", fields, after });
}

function userForms(life, after) {
  const fields = () => [textField("User", "user", { required: true }), field("Mechanism", choice("mechanism", MECHANISMS, "SCRAM-SHA-512"))];
  const password = textField("Password", "password", { type: "password", autocomplete: "new-password", required: true });
  return [
    action(life, { name: "set-password", heading: "Set a password", fields: [...fields(), password], after }),
    action(life, { name: "delete-user", heading: "Delete a credential", fields: fields(), after }),
  ];
}

export async function show(main, life) {
  main.append(element("h1", {}, "Access"));
  const rules = element("section");
  const users = element("section");
  const quotas = element("section");
  const removal = element("div");
  const forms = element("div");
  const section = (place, title, found, name, filled) => {
    const body = found.problems[name] ? notice(found.problems[name]) : found[name].length ? filled() : element("p", { class: "faint" }, "None.");
    place.replaceChildren(element("h2", {}, title), body);
  };

  const ruleRow = (each) => {
    const remove = element("button", { type: "button" }, "Remove …");
    remove.addEventListener("click", () => {
      removal.replaceChildren(action(life, { name: "remove-acl", heading: `Remove the ACL of ${each.principal}`, fixed: each, after: load, isOpen: true }));
      removal.scrollIntoView({ block: "nearest" });
    });
    return [
      each.principal, element("span", { class: each.permission === "Deny" ? "bad-text" : null }, each.permission),
      each.operation, each.resource_type, each.name, each.pattern, each.host, life.about.read_only ? "" : remove,
    ];
  };

  async function load() {
    const found = await life.run(() => ask("permissions", {}, life.signal));
    if (!found) return;
    section(rules, "ACLs", found, "acls", () => table(RULES, found.acls.map(ruleRow)));
    section(users, "Users with SCRAM credentials", found, "users", () => table(USERS, found.users.map((each) => [each.user, each.credentials.join("; ")])));
    section(quotas, "Quotas", found, "quotas", () => table([["Client", "wrap"], ["Quota", "wrap"]], found.quotas.map((each) => [
      each.entity, Object.entries(each.quotas).map(([name, value]) => `${name} = ${value}`).join(", "),
    ])));
    if (!forms.children.length) forms.append(...(found.problems.acls ? [] : [ruleForm(life, found.operations, load)]), ...userForms(life, load));
  }
  main.append(rules, removal, users, quotas, forms);
  await load();
}
