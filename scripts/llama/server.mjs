// llama.cpp behind the protocol of chat completions, with a model that is made here. It prints {"port": N}, and ends when
// its standard input does.
//
//   server.mjs [FILE]
//
// The model begins with a call of FILE_READ for FILE, by default /w/shop.go, if there are tools, and goes on with a text
// after a result. Asked as the model "loop", it never ends by itself. The header X-Cut breaks the connection behind that
// many tokens.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getLlama } from "node-llama-cpp";

import { gguf } from "./gguf.mjs";

const CONTEXT = 1024;

const folder = mkdtempSync(join(tmpdir(), "orch-llama-"));
const file = join(folder, "markov.gguf");
writeFileSync(file, gguf({
  call: ["<tool_call>", '{"name": "FILE_READ", ', '"arguments": {', '"file_path": ', JSON.stringify(process.argv[2] ?? "/w/shop.go"), "}}", "</tool_call>"],
  text: ["The", " file", " adds", " the", " prices", " –", " and", " nothing", " else", "."],
  loop: ["Tick", " tock", "..."],
}));

const llama = await getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: 1 });
const model = await llama.loadModel({ modelPath: file });
const sequence = (await model.createContext({ contextSize: CONTEXT, threads: 1 })).getSequence();
rmSync(folder, { recursive: true });

// prompt returns the text of a conversation, and the chain that answers it.
function prompt({ model: name, messages, tools = [] }) {
  const called = messages.some((m) => m.role === "tool");
  const chain = name === "loop" ? "loop" : tools.length > 0 && !called ? "call" : "text";
  return { chain, text: messages.map((m) => `${m.role}: ${JSON.stringify(m.content ?? m.tool_calls)}\n`).join("") };
}

// generate yields the pieces of the answer.
async function* generate(tokens, limit) {
  await sequence.clearHistory();
  let n = 0;
  for await (const token of sequence.evaluate(tokens, { temperature: 0 })) {
    if (model.isEogToken(token)) return;
    yield model.detokenize([token]);
    if (++n === limit) return;
  }
}

// refuse answers with an error as llama.cpp writes it.
function refuse(res, status, type, message) {
  res.writeHead(status, { "content-type": "application/json; charset=utf-8" });
  res.end(JSON.stringify({ error: { code: status, message, type } }));
}

// answer streams the answer to a request.
async function answer(req, res, body) {
  const { chain, text } = prompt(body);
  const tokens = [...model.tokenize(text, false), ...model.tokenize(`<|${chain}|>`, true)];
  if (tokens.length >= CONTEXT) {
    const message = `the request exceeds the available context size: ${tokens.length} tokens of ${CONTEXT}`;
    return refuse(res, 400, "exceed_context_size_error", message);
  }
  res.writeHead(200, { "content-type": "text/event-stream" });
  const say = (fields) => res.write(`data: ${JSON.stringify({ id: "chatcmpl-llama", object: "chat.completion.chunk", created: 1, model: "markov", ...fields })}\n\n`);
  const delta = (delta, finish_reason = null) => say({ choices: [{ index: 0, delta, finish_reason }] });

  const limit = body.max_tokens ?? CONTEXT - tokens.length;
  const cut = Number(req.headers["x-cut"] ?? 0);
  let n = 0, said = "", ended = false;
  for await (const piece of generate(tokens, limit)) {
    n++;
    said += piece;
    if (chain !== "call") delta({ content: piece });
    if (n === cut) return res.destroy();
  }
  ended = n < limit;
  const call = said.match(/<tool_call>(.*)<\/tool_call>/s);
  if (call) {
    const { name, arguments: args } = JSON.parse(call[1]);
    delta({ tool_calls: [{ index: 0, id: "call_llama", type: "function", function: { name, arguments: JSON.stringify(args) } }] });
  }
  delta({}, call ? "tool_calls" : ended ? "stop" : "length");
  if (body.stream_options?.include_usage) {
    say({ choices: [], usage: { prompt_tokens: tokens.length, completion_tokens: n, total_tokens: tokens.length + n } });
  }
  res.end("data: [DONE]\n\n");
}

let turn = Promise.resolve(); // there is one sequence: requests wait for each other
const server = createServer(async (req, res) => {
  let body = "";
  for await (const chunk of req) body += chunk;
  turn = turn.then(() => answer(req, res, JSON.parse(body))).catch((error) => res.headersSent ? res.destroy() : refuse(res, 500, "server_error", String(error)));
});
server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port })));
process.stdin.resume().on("end", () => process.exit(0));
