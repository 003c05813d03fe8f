// The tree of ZooKeeper, one znode at a time, with what each is for.

import { element } from "./elements.js";
import { jsonTree, longText } from "./json.js";
import { ask, count, link, notice, table } from "./screen.js";
import { time, zone } from "./times.js";

const CHILDREN = [["Znode", "wrap"], ["What it is", "wrap"]];
const at = (path) => `#/zookeeper${path.split("/").map(encodeURIComponent).join("/")}`;

function crumbs(path) {
  const parts = path.split("/").filter(Boolean);
  const links = parts.map((part, index) => [" / ", link(at(`/${parts.slice(0, index + 1).join("/")}`), part)]).flat();
  return element("p", { class: "crumbs" }, link(at("/"), "root"), ...links);
}

export async function show(main, life, path = "/") {
  main.append(element("h1", {}, "ZooKeeper"));
  if (!life.about.has_zookeeper) {
    main.append(notice("Nobody said where ZooKeeper is, or it is not there: kafkalite console --zookeeper HOST:PORT, or zookeeper.connect in the context."));
    return;
  }
  const found = await life.run(() => ask("znode", { path }, life.signal));
  if (!found) return;
  const { stat } = found;
  const facts = [
    ["Version", `${stat.version}, of its children ${stat.cversion}`],
    ["Made", `${time(stat.ctime_ms)} ${zone()}`],
    ["Changed", `${time(stat.mtime_ms)} ${zone()}`],
    ["Kept", found.session ? `as long as session ${found.session} lives` : "until it is deleted"],
    ["Bytes", count(stat.data_length)],
  ];
  main.append(
    crumbs(path),
    element("p", {}, found.meaning ?? "Kafka knows nothing of it."),
    ...(!found.data.bytes ? [] : found.data.kind === "json" ? jsonTree("What it holds", found.data.text) : [longText("What it holds", found.data.text)]),
    element("dl", { class: "facts" }, ...facts.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)])),
  );
  if (found.children.length) {
    const more = found.children_count > found.children.length ? `, the first ${found.children.length} of` : "";
    main.append(
      element("h2", {}, `Below it `, element("small", {}, `${more} ${count(found.children_count)}`)),
      table(CHILDREN, found.children.map((each) => [link(at(each.path), each.name), each.meaning ?? ""])),
    );
  }
}
