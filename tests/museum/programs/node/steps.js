// The loop of every Node program of the museum: steps from stdin, answers to stdout; see tests/museum/contract.py.
"use strict";
const readline = require("readline");

const [bootstrap, zookeeper, ...words] = process.argv.slice(2);
const say = (content) => process.stdout.write(JSON.stringify(content) + "\n");
const tell = (partition, offset, value) => say({ partition, offset: Number(offset), value: value.toString() });
const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Resolves with what `run(resolve, reject)` finds, within half a minute. */
function within(run) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("not within 30 s")), 30000);
    const end = (how) => (what) => {
      clearTimeout(timer);
      how(what);
    };
    run(end(resolve), end(reject));
  });
}

async function serve(steps) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...given] = line.split(" ");
    try {
      const values = await steps[name](...given);
      say({ ok: true, values: (values || []).map(String) });
    } catch (problem) {
      say({ ok: false, error: String(problem && problem.message ? problem.message : problem) });
    }
  }
  process.exit(0);
}

module.exports = { bootstrap, zookeeper, words, tell, later, within, serve };
