// Tools of real MCP servers in plans, and for clients of orch itself.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

import { binary, end, folder, serve } from "../orch.mjs";

const program = (name) => fileURLToPath(new URL(`../node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url));

describe("servers from npm in plans", () => {
  const home = folder();
  const data = join(home, "data");
  const env = { ...process.env, HOME: home };
  let node;
  // orch runs a command and returns what it prints.
  const orch = async (...args) => {
    const { stdout } = await promisify(execFile)(binary, [...args, "--data-dir", data, "--root", home, "-o", "json"], { cwd: home, env });
    return JSON.parse(stdout);
  };
  // until waits for what comes.
  const until = async (look) => {
    for (const deadline = Date.now() + 30_000; Date.now() < deadline; ) {
      const found = await look();
      if (found) {
        return found;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error("it did not come");
  };
  // begin submits a plan of steps, and does not wait.
  const begin = async (steps, outputs = {}) => {
    const file = join(home, "plan.json");
    writeFileSync(file, JSON.stringify({ orch: "v1", steps, outputs }));
    return (await orch("submit", file, "--detach")).id;
  };
  const ended = (id) => until(async () => {
    const task = await orch("get", id);
    return ["DONE", "FAILED", "CANCELLED"].includes(task.state) && task;
  });
  const text = (task, step) => task.steps.find((s) => s.key === step).output.content.map((c) => c.text).join("\n");
  const question = (id) => until(async () => {
    const list = await orch("questions", id);
    return (list.questions ?? list)[0];
  });

  before(async () => {
    mkdirSync(join(home, ".orch", "mcp"), { recursive: true });
    const mcpServers = {
      everything: { command: process.execPath, args: [program("everything"), "stdio"] },
      files: { command: process.execPath, args: [program("filesystem"), home] },
      memory: { command: process.execPath, args: [program("memory")], env: { MEMORY_FILE_PATH: join(home, "memory.jsonl") } },
    };
    writeFileSync(join(home, ".orch", "mcp", "servers.json"), JSON.stringify({ mcpServers }));
    node = await serve(data, home, env);
    await until(async () => {
      const names = JSON.stringify(await orch("tools", "list"));
      return ["everything__echo", "files__read_text_file", "memory__read_graph"].every((name) => names.includes(name));
    });
  });
  after(() => end(node));

  test("outputs of one call are arguments of the next", async () => {
    const task = await ended(await begin([
      { id: "sum", tool: "everything.get-sum", with: { a: 2, b: 3 } },
      { id: "echo", needs: ["sum"], tool: "everything__echo", with: { message: "${{ steps.sum.output.content[0].text }}" } },
    ]));
    assert.equal(task.state, "DONE", JSON.stringify(task.error));
    assert.match(text(task, "echo"), /5/);
  });

  test("an elicitation is answered by orch answer", async () => {
    const id = await begin([{ id: "a", tool: "everything.trigger-elicitation-request" }]);
    const asked = await question(id);
    assert.equal(asked.kind, "elicitation");
    await orch("answer", asked.id, "--json", JSON.stringify({ action: "accept", content: { name: "Ada", check: true } }));
    const task = await ended(id);
    assert.equal(task.state, "DONE", JSON.stringify(task.error));
    assert.match(text(task, "a"), /Ada/);
  });

  test("a sampling is answered by orch answer", async () => {
    const id = await begin([{ id: "a", tool: "everything.trigger-sampling-request", with: { prompt: "2+2?" } }]);
    const asked = await question(id);
    assert.equal(asked.kind, "sampling");
    await orch("answer", asked.id, "--json", JSON.stringify({ role: "assistant", model: "m", content: { type: "text", text: "four" } }));
    const task = await ended(id);
    assert.equal(task.state, "DONE", JSON.stringify(task.error));
    assert.match(text(task, "a"), /four/);
  });

  test("a long operation shows its progress", async () => {
    const id = await begin([{ id: "a", tool: "everything.trigger-long-running-operation", with: { duration: 2, steps: 4 } }]);
    const progress = await until(async () => (await orch("get", id)).steps[0].progress);
    assert.equal(progress.total, 4);
    assert.equal((await ended(id)).state, "DONE");
  });

  test("a task asks and ends", async () => {
    const id = await begin([{ id: "a", tool: "everything.simulate-research-query", with: { topic: "python", ambiguous: true } }]);
    const asked = await question(id);
    const choice = asked.params.requestedSchema.properties.interpretation.oneOf[0].const;
    await orch("answer", asked.id, "--json", JSON.stringify({ action: "accept", content: { interpretation: choice } }));
    const task = await ended(id);
    assert.equal(task.state, "DONE", JSON.stringify(task.error));
    assert.match(text(task, "a"), new RegExp(`Clarification\\*\\*: ${choice}`));
  });

  test("files and memory", async () => {
    const id = await begin([
      { id: "write", tool: "files.write_file", with: { path: join(home, "note.txt"), content: "remember" } },
      { id: "read", needs: ["write"], tool: "files.read_text_file", with: { path: join(home, "note.txt") } },
      { id: "keep", needs: ["read"], tool: "memory.create_entities", with: { entities: [{ name: "note", entityType: "text", observations: ["${{ steps.read.output.content[0].text }}"] }] } },
      { id: "graph", needs: ["keep"], tool: "memory.read_graph" },
    ]);
    // write_file says of itself that it destroys.
    const asked = await until(async () => {
      const list = await orch("approvals");
      return (list.approvals ?? list).find((a) => a.task === id);
    });
    assert.equal(asked.tool, "files__write_file");
    await orch("approve", asked.id);
    const task = await ended(id);
    assert.equal(task.state, "DONE", JSON.stringify(task));
    assert.match(text(task, "graph"), /remember/);
  });

  test("a client of orch calls them", async () => {
    const client = new Client({ name: "test", version: "1" });
    await client.connect(new StdioClientTransport({ command: binary, args: ["mcp", "serve", "--data-dir", data, "--root", home], env }));
    try {
      const names = [];
      for (let cursor, first = true; first || cursor; first = false) {
        const page = await client.listTools({ cursor });
        names.push(...page.tools.map((t) => t.name));
        cursor = page.nextCursor;
      }
      for (const name of ["everything__echo", "files__read_text_file", "memory__read_graph"]) {
        assert.ok(names.includes(name), names.join());
      }
      const result = await client.callTool({ name: "everything__echo", arguments: { message: "hello" } });
      assert.match(result.content[0].text, /hello/);
    } finally {
      await client.close();
    }
  });
});
