// Asks the server at ADDRESS through the official client of each protocol, and prints what each of them understood:
//   clients.mjs ADDRESS KEY SCENARIO...
// A scenario is the name of the model that is asked. The output is one object for each client and scenario, in lines.
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";

const [address, apiKey, ...scenarios] = process.argv.slice(2);

const schema = { type: "object", properties: { path: { type: "string" } } };

// parsed returns the value of JSON, or the text if it is none.
const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

const clients = {
  async openai(model) {
    const client = new OpenAI({ apiKey, baseURL: address + "/v1", maxRetries: 0 });
    const stream = client.chat.completions.stream({
      model,
      messages: [{ role: "user", content: "go" }],
      tools: [{ type: "function", function: { name: "FILE_READ", parameters: schema } }],
      stream_options: { include_usage: true },
    });
    const { choices, usage } = await stream.finalChatCompletion();
    const { message, finish_reason } = choices[0];
    return {
      text: message.content ?? "",
      calls: (message.tool_calls ?? []).map((c) => ({ id: c.id, name: c.function.name, args: parsed(c.function.arguments) })),
      stop: finish_reason,
      tokens: [usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens],
    };
  },

  async anthropic(model) {
    const client = new Anthropic({ apiKey, baseURL: address, maxRetries: 0 });
    const stream = client.messages.stream({
      model,
      max_tokens: 1000,
      messages: [{ role: "user", content: "go" }],
      tools: [{ name: "FILE_READ", input_schema: schema }],
    });
    const { content, stop_reason, usage } = await stream.finalMessage();
    return {
      text: content.filter((b) => b.type === "text").map((b) => b.text).join(""),
      calls: content.filter((b) => b.type === "tool_use").map((b) => ({ id: b.id, name: b.name, args: b.input })),
      thinking: content.filter((b) => b.type === "thinking").map((b) => b.thinking + "|" + b.signature),
      stop: stop_reason,
      tokens: [usage.input_tokens + usage.cache_read_input_tokens, usage.cache_read_input_tokens, usage.output_tokens],
    };
  },

  async gemini(model) {
    const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: address, apiVersion: "v1beta" } });
    const stream = await client.models.generateContentStream({
      model,
      contents: "go",
      config: { tools: [{ functionDeclarations: [{ name: "FILE_READ", parametersJsonSchema: schema }] }] },
    });
    const answer = { text: "", calls: [], thinking: [], stop: "", tokens: [] };
    for await (const { candidates, usageMetadata } of stream) {
      const { content, finishReason } = candidates[0];
      for (const part of content?.parts ?? []) {
        answer.text += part.text ?? "";
        if (part.functionCall) answer.calls.push(part.functionCall);
        if (part.thoughtSignature) answer.thinking.push("|" + part.thoughtSignature);
      }
      answer.stop = finishReason ?? answer.stop;
      const u = usageMetadata;
      if (u) answer.tokens = [u.promptTokenCount, u.cachedContentTokenCount, u.candidatesTokenCount + u.thoughtsTokenCount];
    }
    return answer;
  },
};

for (const [client, ask] of Object.entries(clients)) {
  for (const scenario of scenarios) {
    let result;
    try {
      result = await ask(scenario);
    } catch (error) {
      result = { error: { class: error.constructor.name, status: error.status ?? 0 } };
    }
    console.log(JSON.stringify({ client, scenario, ...result }));
  }
}
