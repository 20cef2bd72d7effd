// The MCP Inspector in its command line mode.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Node, binary, folder } from "../orch.mjs";

const program = fileURLToPath(new URL("../node_modules/.bin/inspector", import.meta.url));
const home = folder();

// inspect runs the Inspector and returns what it printed as JSON.
async function inspect(...args) {
  const { stdout } = await promisify(execFile)(process.execPath, [program, "--cli", ...args], { env: { ...process.env, HOME: home }, timeout: 60_000 });
  return JSON.parse(stdout);
}

for (const era of ["legacy", "modern"]) {
  describe(`Inspector over HTTP, ${era}`, () => {
    let node;
    const ask = (...args) => inspect(node.url, "--transport", "http", "--header", `Authorization: Bearer ${node.token}`, "--protocol-era", era, ...args);
    before(async () => {
      node = await new Node().start();
    });
    after(() => node.end());

    test("lists tools that it finds no fault with", async () => {
      const { tools } = await ask("--method", "tools/list", "--strict");
      assert.ok(tools.some((t) => t.name === "slow_compute"));
    });

    test("calls a tool, and one that becomes a task", async () => {
      assert.equal((await ask("--method", "tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada")).content[0].text, "Hello, Ada!");
      const slow = await ask("--method", "tools/call", "--tool-name", "slow_compute", "--tool-args-json", '{"seconds":1.5,"label":"task"}');
      assert.equal(slow.content[0].text, "computed task");
    });

    test("reads resources and prompts", async () => {
      assert.match((await ask("--method", "resources/read", "--uri", "test://static-text")).contents[0].text, /static text/);
      const prompt = await ask("--method", "prompts/get", "--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=a", "arg2=b");
      assert.match(prompt.messages[0].content.text, /arg1='a'/);
    });
  });
}

describe("Inspector over stdio", () => {
  const root = folder();

  test("calls a tool", async () => {
    const result = await inspect(binary, "mcp", "serve", "--data-dir", `${root}/data`, "--root", root, "--method", "tools/call", "--tool-name", "BASH_EXECUTE", "--tool-arg", "command=echo here");
    assert.equal(result.structuredContent.stdout, "here\n");
  });
});
