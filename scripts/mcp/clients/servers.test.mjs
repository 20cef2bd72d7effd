// Real MCP servers, as orch mcp list and orch mcp test see them.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { binary, folder } from "../orch.mjs";

const program = (name) => fileURLToPath(new URL(`../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url));

// freePort finds a port that nobody listens on.
async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

describe("servers from npm", () => {
  const home = folder();
  let remote;
  const orch = async (...args) => {
    const { stdout } = await promisify(execFile)(binary, ["mcp", ...args, "-o", "json"], { cwd: home, env: { ...process.env, HOME: home } });
    return JSON.parse(stdout);
  };
  before(async () => {
    const port = await freePort();
    remote = spawn(process.execPath, [program("everything"), "streamableHttp"], { env: { ...process.env, PORT: String(port) }, stdio: ["ignore", "ignore", "pipe"] });
    for await (const text of remote.stderr.setEncoding("utf8")) {
      if (text.includes("listening")) {
        break;
      }
    }
    mkdirSync(join(home, ".orch", "mcp"), { recursive: true });
    const mcpServers = {
      everything: { command: process.execPath, args: [program("everything"), "stdio"] },
      files: { command: process.execPath, args: [program("filesystem"), home] },
      remote: { type: "http", url: `http://127.0.0.1:${port}/mcp` },
    };
    writeFileSync(join(home, ".orch", "mcp", "servers.json"), JSON.stringify({ mcpServers }));
  });
  after(() => remote.kill());

  test("all of them are ready", async () => {
    let list = [];
    for (let looks = 0; looks < 10 && !(list.length > 0 && list.every((s) => s.status === "ready")); looks++) {
      list = await orch("list"); // on a loaded machine a server may start more slowly than a list waits
    }
    assert.deepEqual(list.map((s) => [s.name, s.status]), [["everything", "ready"], ["files", "ready"], ["remote", "ready"]]);
  });

  for (const [name, tool] of [["everything", "echo"], ["files", "read_text_file"], ["remote", "echo"]]) {
    test(`${name} shows its tools`, async () => {
      const report = await orch("test", name);
      assert.deepEqual(report.stages.map((s) => s.name), ["config", "connect", "initialize", "tools", "ping"]);
      assert.ok(report.tools.includes(tool), report.tools.join());
    });
  }
});
