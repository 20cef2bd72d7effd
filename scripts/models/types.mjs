// Compiles requests as literals of the types that the official clients declare, so that a field that they do not know is an
// error:
//   types.mjs PROTOCOL=FILE...
// A file is a golden file, with the request in its field body.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const types = {
  openai: `import type { ChatCompletionCreateParamsStreaming as Body } from "openai/resources/chat/completions";`,
  anthropic: `import type { MessageCreateParamsStreaming as Body } from "@anthropic-ai/sdk/resources/messages";`,
  gemini: `import type { Content, FunctionCallingConfigMode, GenerationConfig, Tool } from "@google/genai";
type Body = { systemInstruction?: Content; contents: Content[]; tools?: Tool[]; toolConfig?: { functionCallingConfig: { mode: \`\${FunctionCallingConfigMode}\` } }; generationConfig?: GenerationConfig };`,
};

const here = dirname(fileURLToPath(import.meta.url));
const sources = new Map();
process.argv.slice(2).forEach((arg, i) => {
  const [protocol, file] = arg.split("=");
  const { body } = JSON.parse(readFileSync(file, "utf8"));
  sources.set(join(here, `golden${i}.ts`), { file, text: `${types[protocol]}\nexport const body: Body = ${JSON.stringify(body, null, 1)};\n` });
});

const options = { strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, types: [] };
const host = ts.createCompilerHost(options);
const { fileExists, getSourceFile, readFile } = host;
host.fileExists = (name) => sources.has(name) || fileExists(name);
host.readFile = (name) => sources.get(name)?.text ?? readFile(name);
host.getSourceFile = (name, ...rest) => (sources.has(name) ? ts.createSourceFile(name, sources.get(name).text, ...rest) : getSourceFile(name, ...rest));

const program = ts.createProgram([...sources.keys()], options, host);
const problems = ts.getPreEmitDiagnostics(program).map((d) => {
  const message = ts.flattenDiagnosticMessageText(d.messageText, "\n  ");
  const line = d.file ? d.file.getLineAndCharacterOfPosition(d.start).line : 0;
  return `${sources.get(d.file?.fileName)?.file ?? d.file?.fileName}: ${message}: ${d.file?.text.split("\n")[line] ?? ""}`;
});
console.log(JSON.stringify({ checked: sources.size, problems }));
