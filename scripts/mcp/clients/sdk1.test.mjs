// The TypeScript SDK 1.x: protocol 2025-11-25, with tasks.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

import { Node, binary, end, folder, serve } from "../orch.mjs";

// connect returns a client whose user accepts every form with the answers.
async function connect(transport, answers = {}) {
  const client = new Client({ name: "sdk1", version: "1" }, { capabilities: { elicitation: {}, tasks: { list: {}, cancel: {} } } });
  client.forms = [];
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    client.forms.push(params);
    return { action: "accept", content: answers };
  });
  await client.connect(transport);
  return client;
}

const overHTTP = (node) => new StreamableHTTPClientTransport(new URL(node.url), { requestInit: { headers: { Authorization: `Bearer ${node.token}` } } });

// asTask calls a tool as a task and returns what the stream of its states said; each may do something between two polls.
async function asTask(client, name, args, each = async () => {}) {
  const seen = [];
  for await (const message of client.experimental.tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, { task: { ttl: 60_000 } })) {
    seen.push(message);
    await each(message);
  }
  return seen;
}

describe("SDK 1.x over HTTP", () => {
  let node, client;
  before(async () => {
    node = await new Node().start();
    client = await connect(overHTTP(node), { confirm: true });
  });
  after(async () => {
    await client.close();
    await node.end();
  });

  test("lists and calls", async () => {
    const { tools } = await client.listTools();
    assert.equal(tools.find((t) => t.name === "slow_compute").execution.taskSupport, "optional");
    assert.equal((await client.callTool({ name: "greet", arguments: { name: "Ada" } })).content[0].text, "Hello, Ada!");
    assert.equal((await client.callTool({ name: "test_error_handling", arguments: {} })).isError, true);
  });

  test("resources, prompts and completion", async () => {
    assert.ok((await client.listResources()).resources.some((r) => r.uri === "test://static-text"));
    assert.match((await client.readResource({ uri: "test://static-text" })).contents[0].text, /static text/);
    assert.match((await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "a", arg2: "b" } })).messages[0].content.text, /arg1='a'/);
    const { completion } = await client.complete({ ref: { type: "ref/prompt", name: "test_prompt_with_arguments" }, argument: { name: "arg1", value: "par" } });
    assert.deepEqual(completion.values, ["paris", "park", "party"]);
  });

  test("hears of progress", async () => {
    const heard = [];
    await client.callTool({ name: "test_tool_with_progress", arguments: {} }, CallToolResultSchema, { onprogress: ({ progress }) => heard.push(progress) });
    assert.deepEqual(heard, [0, 50, 100]);
  });

  test("polls a task to its result", async () => {
    const seen = await asTask(client, "slow_compute", { seconds: 1.5, label: "task" });
    assert.equal(seen[0].type, "taskCreated");
    assert.ok(seen.some((m) => m.type === "taskStatus" && m.task.status === "working"));
    assert.equal(seen.at(-1).result.content[0].text, "computed task");
    const { tasks } = await client.experimental.tasks.listTasks();
    assert.ok(tasks.some((t) => t.taskId === seen[0].task.taskId && t.status === "completed"));
  });

  test("cancels a task", async () => {
    let id;
    const seen = await asTask(client, "slow_compute", { seconds: 60 }, async (m) => {
      if (m.type === "taskCreated") {
        id = m.task.taskId;
        assert.equal((await client.experimental.tasks.cancelTask(id)).status, "cancelled");
      }
    });
    assert.match(seen.at(-1).error.message, /cancelled/);
    assert.equal((await client.experimental.tasks.getTask(id)).status, "cancelled");
    await assert.rejects(client.experimental.tasks.cancelTask(id), { code: -32602 });
  });

  test("sees a task fail", async () => {
    const seen = await asTask(client, "failing_job", {});
    assert.equal(seen.at(-2).task.status, "failed");
    const result = await client.experimental.tasks.getTaskResult(seen[0].task.taskId, CallToolResultSchema);
    assert.equal(result.isError, true);
  });

  test("answers a form, of a call and of a task", async () => {
    client.forms.length = 0;
    const plain = await client.callTool({ name: "confirm_delete", arguments: { filename: "a.txt" } });
    assert.equal(plain.content[0].text, "a.txt: accept true");
    const seen = await asTask(client, "confirm_delete", { filename: "b.txt" });
    assert.equal(seen.at(-1).result.content[0].text, "b.txt: accept true");
    assert.deepEqual(client.forms.map((f) => f.message), ["Delete a.txt?", "Delete b.txt?"]);
    assert.equal(client.forms[1]._meta["io.modelcontextprotocol/related-task"].taskId, seen[0].task.taskId);
  });

  test("gets its result although the node was killed", async () => {
    let killed = 0;
    const seen = await asTask(client, "slow_compute", { seconds: 3, label: "twice" }, async (m) => {
      if (m.type === "taskStatus" && m.task.status === "working" && ++killed === 1) {
        await node.end("SIGKILL");
        await node.start();
      }
    });
    assert.ok(killed > 0);
    assert.equal(seen.at(-1).result?.content[0].text, "computed twice", seen.at(-1).error?.message);
    assert.equal((await client.callTool({ name: "greet", arguments: { name: "again" } })).content[0].text, "Hello, again!");
  });
});

describe("SDK 1.x over stdio", () => {
  const root = folder();
  let client;
  before(async () => {
    const transport = new StdioClientTransport({ command: binary, args: ["mcp", "serve", "--data-dir", `${root}/data`, "--root", root], stderr: "inherit" });
    client = await connect(transport, { decision: "approve" });
  });
  after(() => client.close());

  test("lets its user approve what leaves the workspace", async () => {
    const wrote = await client.callTool({ name: "write_file", arguments: { path: `${root}/a.txt`, content: "hello" } });
    assert.ok(!wrote.isError, JSON.stringify(wrote));
    assert.equal(client.forms.length, 1);
    const read = await client.callTool({ name: "FILE_READ", arguments: { file_path: `${root}/a.txt` } });
    assert.match(JSON.stringify(read.structuredContent), /hello/);
  });

  test("polls a task to its result", async () => {
    const seen = await asTask(client, "BASH_EXECUTE", { command: "sleep 1; echo done" });
    assert.equal(seen.at(-1).result?.structuredContent.stdout, "done\n", seen.at(-1).error?.message);
  });
});

test("SDK 1.x over stdio goes on when the node behind it was killed", async () => {
  const root = folder();
  const data = `${root}/data`;
  let node = await serve(data, root);
  const client = await connect(new StdioClientTransport({ command: binary, args: ["mcp", "serve", "--data-dir", data, "--root", root], stderr: "inherit" }), { outcome: "retry" });
  const seen = await asTask(client, "BASH_EXECUTE", { command: "echo before" });
  await end(node, "SIGKILL");
  node = await serve(data, root);
  const result = await client.experimental.tasks.getTaskResult(seen[0].task.taskId, CallToolResultSchema);
  assert.equal(result.structuredContent.stdout, "before\n");
  assert.equal((await client.callTool({ name: "BASH_EXECUTE", arguments: { command: "echo after" } })).structuredContent.stdout, "after\n");
  await client.close();
  await end(node);
});
