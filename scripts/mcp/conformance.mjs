// Runs the conformance suite of MCP against a node, and fails on every check that is not met.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { Node, authorised, folder } from "./orch.mjs";

const given = process.argv.slice(2); // such as --scenario caching --spec-version 2026-07-28
const current = "@modelcontextprotocol/conformance";
const runs = given.length > 0 ? [{ suite: current, args: given }] : [
  { suite: current, args: ["--requirements", "2025-11-25"] },
  { suite: current, args: ["--requirements", "2026-07-28"] },
  { suite: "conformance-released", args: ["--spec-version", "2025-11-25"] },
];

// warnings are the recommendations that were not followed; the suite counts them as passed.
function warnings(results) {
  const names = readdirSync(results, { recursive: true }).filter((name) => name.endsWith("checks.json"));
  const checks = names.flatMap((name) => JSON.parse(readFileSync(join(results, name), "utf8")));
  return checks.filter((c) => c.status === "WARNING").map((c) => `warning: ${c.id}: ${c.errorMessage ?? c.description}`);
}

// suite runs the suite once and returns what it printed, and what it warns of.
async function suite(url, run) {
  const program = fileURLToPath(new URL(`node_modules/${run.suite}/dist/index.js`, import.meta.url));
  const out = join(folder(), "results");
  const child = spawn(process.execPath, [program, "server", "--url", url, "-o", out, ...run.args], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part) => {
    text += part;
  });
  const [code] = await once(child, "close");
  return { text, code, warned: warnings(out) };
}

const node = await new Node().start();
const url = await authorised(node);
let failed = false;
for (const run of runs) {
  const { text, code, warned } = await suite(url, run);
  // Scenarios that are not scored fail without a word in the exit code.
  const bad = code !== 0 || text.includes("✗");
  failed ||= bad;
  console.log(bad ? text : text.slice(text.indexOf("=== SUMMARY")));
  console.log(warned.join("\n"));
  console.log(`${bad ? "FAILED" : "passed"}: ${run.suite} ${run.args.join(" ")}\n`);
}
await node.end();
process.exitCode = failed ? 1 : 0;
