// The TypeScript SDK 2.x: it speaks protocol 2025-11-25 unless it is told to negotiate, and 2026-07-28 then. Tasks
// are in a package of their own, which speaks both.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";

import { Node, binary, folder } from "../orch.mjs";

const info = { name: "sdk2", version: "1" };
const extension = "io.modelcontextprotocol/tasks";

// connect returns a client whose user accepts every form with the answers.
async function connect(transport, mode, answers = {}) {
  const capabilities = { elicitation: {}, extensions: mode === "legacy" ? {} : { [extension]: {} } };
  const client = new Client(info, { capabilities, versionNegotiation: { mode } });
  client.forms = [];
  client.setRequestHandler("elicitation/create", async ({ params }) => {
    client.forms.push(params);
    return { action: "accept", content: answers };
  });
  await client.connect(transport);
  return client;
}

const overHTTP = (node) => new StreamableHTTPClientTransport(new URL(node.url), { requestInit: { headers: { Authorization: `Bearer ${node.token}` } } });

// posted sends requests of the tasks extension, which the SDK leaves to others to send.
function posted(node) {
  let last = 0;
  return async (request, { signal, context } = {}) => {
    const { method, params } = request;
    const headers = {
      ...context?.headers,
      Authorization: `Bearer ${node.token}`,
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": method,
    };
    const name = params.taskId ?? params.name;
    if (name !== undefined) {
      headers["Mcp-Name"] = name;
    }
    const response = await fetch(node.url, { method: "POST", headers, signal, body: JSON.stringify({ ...request, jsonrpc: "2.0", id: `raw-${++last}` }) });
    let text = await response.text();
    if (response.headers.get("content-type")?.startsWith("text/event-stream")) {
      const frames = text.split("\n").filter((line) => line.startsWith("data: {"));
      text = frames.at(-1).slice("data: ".length);
    }
    const { result, error } = JSON.parse(text);
    return error ? { kind: "error", error } : { kind: "result", result };
  };
}

// tasks adds tasks to a client.
function tasks(client, node, mode) {
  const framing = { protocolVersion: "2026-07-28", clientInfo: info, clientCapabilities: { elicitation: {}, extensions: { [extension]: {} } } };
  const raw = mode === "legacy" ? {} : { rawDispatch: posted(node), v2RequestFraming: framing };
  return createTaskSessionFromClient(client, {
    endpointId: node.url,
    onInputRequest: async (request) => {
      client.forms.push(request.params);
      return { action: "accept", content: { confirm: true } };
    },
    ...raw,
  });
}

for (const mode of ["legacy", "auto"]) {
  describe(`SDK 2.x over HTTP, ${mode}`, () => {
    let node, client, session;
    const call = (name, args) => session.callTool(name, args, { task: { preference: "require" } });
    before(async () => {
      node = await new Node().start();
      client = await connect(overHTTP(node), mode, { confirm: true, ok: true });
      session = tasks(client, node, mode);
    });
    after(async () => {
      await session.close();
      await client.close();
      await node.end();
    });

    test("negotiates its protocol", () => {
      assert.equal(client.getProtocolEra(), mode === "legacy" ? "legacy" : "modern");
    });

    test("lists and calls", async () => {
      const listed = await client.listTools();
      assert.ok(listed.tools.some((t) => t.name === "greet"));
      assert.equal((await client.callTool({ name: "greet", arguments: { name: "Ada" } })).content[0].text, "Hello, Ada!");
    });

    test("resources, prompts and completion", async () => {
      assert.match((await client.readResource({ uri: "test://static-text" })).contents[0].text, /static text/);
      assert.match((await client.getPrompt({ name: "test_prompt_with_arguments", arguments: { arg1: "a", arg2: "b" } })).messages[0].content.text, /arg1='a'/);
      const { completion } = await client.complete({ ref: { type: "ref/prompt", name: "test_prompt_with_arguments" }, argument: { name: "arg1", value: "pari" } });
      assert.deepEqual(completion.values, ["paris"]);
    });

    test("hears of progress", async () => {
      const heard = [];
      await client.callTool({ name: "test_tool_with_progress", arguments: {} }, { onprogress: ({ progress }) => heard.push(progress) });
      assert.deepEqual(heard, [0, 50, 100]);
    });

    test("polls a task to its result", async () => {
      const execution = await call("slow_compute", { seconds: 1.5, label: "task" });
      assert.equal(execution.kind, "task");
      const { outcome } = await execution.settle();
      assert.equal(resultFromTaskOutcome(outcome).content[0].text, "computed task");
    });

    test("cancels a task", async () => {
      const execution = await call("slow_compute", { seconds: 60 });
      await execution.cancel();
      assert.equal((await session.task(execution.handle.taskId).snapshot()).status, "cancelled");
      await execution.close();
    });

    test("answers a form, of a call and of a task", async () => {
      client.forms.length = 0;
      const plain = await client.callTool({ name: mode === "legacy" ? "confirm_delete" : "test_input_required_result_request_state", arguments: mode === "legacy" ? { filename: "a.txt" } : {} });
      assert.match(plain.content[0].text, /accept true|confirmed/);
      const { outcome } = await (await call("confirm_delete", { filename: "b.txt" })).settle();
      assert.equal(resultFromTaskOutcome(outcome).content[0].text, "b.txt: accept true");
      assert.equal(client.forms.length, 2);
    });

    test("gets its result although the node was killed", async () => {
      const execution = await call("slow_compute", { seconds: 3, label: "twice" });
      let killed = 0;
      const { outcome } = await execution.settle({
        onEvent: async (event) => {
          if (event.type === "task" && event.task.status === "working" && ++killed === 1) {
            await node.end("SIGKILL");
            await node.start();
          }
        },
      });
      assert.ok(killed > 0);
      assert.equal(resultFromTaskOutcome(outcome).content[0].text, "computed twice");
      assert.equal((await client.callTool({ name: "greet", arguments: { name: "again" } })).content[0].text, "Hello, again!");
    });
  });

  describe(`SDK 2.x over stdio, ${mode}`, () => {
    const root = folder();
    let client;
    before(async () => {
      const transport = new StdioClientTransport({ command: binary, args: ["mcp", "serve", "--data-dir", `${root}/data`, "--root", root], stderr: "inherit" });
      client = await connect(transport, mode, { decision: "approve" });
    });
    after(() => client.close());

    test("lets its user approve what leaves the workspace", async () => {
      const wrote = await client.callTool({ name: "write_file", arguments: { path: `${root}/a.txt`, content: "hello" } });
      assert.ok(!wrote.isError, JSON.stringify(wrote));
      assert.equal(client.forms.length, 1);
      const read = await client.callTool({ name: "FILE_READ", arguments: { file_path: `${root}/a.txt` } });
      assert.match(JSON.stringify(read.structuredContent), /hello/);
    });
  });
}
