// Agents that are models of MCP clients: with nothing but their credential they claim, beat and report.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

import { binary, end, folder } from "../orch.mjs";

describe("agents over MCP", () => {
  const data = join(folder(), "data");
  const clients = [];
  let node, url, operator;

  const connect = async (name, token) => {
    const client = new Client({ name, version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));
    clients.push(client);
    return client;
  };
  const call = async (client, name, args = {}, options = undefined) => {
    const result = await client.callTool({ name, arguments: args }, undefined, options);
    assert.ok(!result.isError, JSON.stringify(result));
    return result.structuredContent;
  };
  const enrol = async (name, capability) => {
    const { credentials } = await call(operator, "onboarding.registerAgent", {
      agentInfo: { name, type: "developer", version: "1.0.0" },
      capabilities: [{ name: capability, category: "work" }],
    });
    return connect(name, credentials.secret);
  };
  const submit = async (capability) => {
    const plan = { orch: "v1", steps: [{ id: "a", tool: "AGENT_TASK", with: { title: "do it", requires: [capability], data: { n: 1 } } }] };
    return (await call(operator, "orch_submit", { plan })).id;
  };
  const ref = ({ task, step, attempt }) => ({ task, step, attempt });

  before(async () => {
    node = spawn(binary, ["serve", "--data-dir", data, "--root", folder(), "--http", "127.0.0.1:0"], { stdio: ["ignore", "inherit", "pipe"] });
    process.prependListener("exit", () => node.kill("SIGKILL"));
    url = await Promise.race([
      new Promise((resolve) => createInterface({ input: node.stderr }).on("line", (line) => {
        const found = /http:\S+\/mcp/.exec(line);
        if (found) resolve(found[0]);
      })),
      once(node, "exit").then(([code]) => Promise.reject(new Error(`the node has ended with ${code}`))),
    ]);
    operator = await connect("operator", readFileSync(join(data, "mcp.token"), "utf8").trim());
  });
  after(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await end(node);
  });

  test("a task is done by one of two agents, and its history names it", async () => {
    const agents = { ada: await enrol("ada", "build"), bob: await enrol("bob", "build") };
    assert.ok((await agents.ada.listTools()).tools.some((t) => t.name === "AGENT_CLAIM"));
    const id = await submit("build");
    const waiting = Object.entries(agents).map(async ([name, client]) => ({ name, client, ...(await call(client, "AGENT_CLAIM", { wait_seconds: 5 })) }));
    const claimed = (await Promise.all(waiting)).filter(({ calls }) => calls.length > 0);
    assert.equal(claimed.length, 1, "one of them has the call");
    const [{ name, client, calls }] = claimed;
    assert.equal(calls[0].task, id);
    assert.deepEqual([calls[0].title, calls[0].data], ["do it", { n: 1 }]);
    assert.deepEqual(await call(client, "AGENT_HEARTBEAT", { calls: [{ ...ref(calls[0]), progress: { done: 1, total: 2 } }] }), { stop: [] });
    await call(client, "AGENT_REPORT", { ...ref(calls[0]), result: { made: "it" }, summary: "made" });
    assert.equal((await call(operator, "orch_result", { task_id: id })).state, "DONE");
    const history = execFileSync(binary, ["history", id, "--data-dir", data, "-o", "json"], { encoding: "utf8" });
    assert.match(history, new RegExp(`agent:${name}`));
  });

  test("a call that comes too late for the client comes again", async () => {
    const cyd = await enrol("cyd", "sing");
    await assert.rejects(call(cyd, "AGENT_CLAIM", { wait_seconds: 30 }, { timeout: 300 }), /timed out/i);
    const id = await submit("sing");
    let calls = [];
    for (let i = 0; i < 12 && calls.length === 0; i++) ({ calls } = await call(cyd, "AGENT_CLAIM", { wait_seconds: 5 }));
    assert.equal(calls[0]?.task, id);
    await call(cyd, "AGENT_REPORT", { ...ref(calls[0]), error: "no voice" });
    assert.equal((await call(operator, "orch_result", { task_id: id })).state, "FAILED");
  });

  test("nobody else takes work", async () => {
    const result = await operator.callTool({ name: "AGENT_CLAIM", arguments: {} });
    assert.equal(result.isError, true);
    assert.equal(result._meta["orch/error"].name, "FORBIDDEN");
  });
});
