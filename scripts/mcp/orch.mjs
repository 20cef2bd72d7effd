// A node of orch with the fixtures of the conformance suite, as a child process.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

// A signal ends the children too.
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => process.exit(1));
}

export const binary = fileURLToPath(new URL("../../bin/orch", import.meta.url));

// folder makes an empty folder that goes when the program ends.
export function folder() {
  const path = mkdtempSync(join(tmpdir(), "orch-mcp-"));
  process.on("exit", () => rmSync(path, { recursive: true, force: true, maxRetries: 5 }));
  return path;
}

// Node is a node that serves MCP over HTTP. It can be killed, and started again with the same data at the same URL.
export class Node {
  #data = folder();
  #address = "127.0.0.1:0";
  #child;
  token = randomBytes(16).toString("hex");
  url;

  async start() {
    const args = ["mcp", "conformance", "--http", this.#address, "--token", this.token, "--data-dir", join(this.#data, "data"), "--root", this.#data];
    const child = spawn(binary, args, { stdio: ["ignore", "pipe", "inherit"] });
    process.prependListener("exit", () => child.kill("SIGKILL"));
    const [line] = await Promise.race([
      once(createInterface({ input: child.stdout }), "line"),
      once(child, "exit").then(([code]) => Promise.reject(new Error(`the node has ended with ${code}`))),
    ]);
    this.#child = child;
    this.url = JSON.parse(line).mcp;
    this.#address = new URL(this.url).host;
    return this;
  }

  end(signal) {
    return end(this.#child, signal);
  }
}

// serve starts a node without MCP of its own, for `orch mcp serve` with the same data, and returns the process.
export async function serve(data, root, env = process.env) {
  const child = spawn(binary, ["serve", "--data-dir", data, "--root", root, "--http", "off"], { env, stdio: ["ignore", "inherit", "pipe"] });
  process.prependListener("exit", () => child.kill("SIGKILL"));
  await new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`the node has ended with ${code}`)));
    createInterface({ input: child.stderr }).on("line", (line) => line.startsWith("orch serves") && resolve());
  });
  return child;
}

// end sends a signal to a process and waits until it is gone.
export async function end(child, signal = "SIGTERM") {
  const gone = once(child, "exit");
  child.kill(signal);
  await gone;
}

// authorised serves everything that a node serves to whoever asks: the suite cannot send a bearer token.
export async function authorised(node) {
  const target = new URL(node.url);
  const server = createServer((req, res) => {
    const onward = request(
      { host: target.hostname, port: target.port, path: req.url, method: req.method, headers: [...req.rawHeaders, "Authorization", `Bearer ${node.token}`] },
      (answer) => {
        res.writeHead(answer.statusCode, answer.rawHeaders);
        res.flushHeaders();
        answer.pipe(res);
        answer.on("error", () => res.destroy());
      },
    );
    onward.on("error", () => res.destroy());
    res.on("close", () => onward.destroy());
    req.pipe(onward);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  server.unref();
  return `http://127.0.0.1:${server.address().port}${target.pathname}`;
}
