// A model in the format of llama.cpp that says what a test wants. Its weights are a Markov chain: the state of a token is
// one dimension, the layers add nothing to it, and the output matrix leads from each token to the one behind it. So it is a
// real model with a real tokenizer, of one megabyte, without weights from anywhere.

// The kinds of tokens.
const UNKNOWN = 2, CONTROL = 3, USER = 4, BYTE = 6;
// The types of tensors.
const F32 = 0, F16 = 1;

// The dimensions of the model. There are at most EMBEDDING tokens.
const EMBEDDING = 320, HEADS = 5, FEED_FORWARD = 32, CONTEXT = 4096;
const ALIGNMENT = 32;

// vocabulary returns the tokens for chains, and the token behind each token. A chain begins at the control token
// <|NAME|>. A piece "..." at its end repeats the piece in front of it for ever.
function vocabulary(chains) {
  const tokens = [{ text: "<unk>", kind: UNKNOWN }, { text: "<s>", kind: CONTROL }, { text: "</s>", kind: CONTROL }];
  for (let i = 0; i < 256; i++) tokens.push({ text: `<0x${i.toString(16).toUpperCase().padStart(2, "0")}>`, kind: BYTE });
  const end = 2;
  const next = new Map();
  for (const [name, pieces] of Object.entries(chains)) {
    let last = tokens.push({ text: `<|${name}|>`, kind: CONTROL }) - 1;
    for (const text of pieces.filter((p) => p !== "...")) {
      const token = tokens.push({ text, kind: USER }) - 1;
      next.set(last, token);
      last = token;
    }
    next.set(last, pieces.at(-1) === "..." ? last : end);
  }
  if (new Set(tokens.map((t) => t.text)).size < tokens.length) throw new Error("a piece is in two places");
  if (tokens.length > EMBEDDING) throw new Error(`${tokens.length} tokens, more than ${EMBEDDING}`);
  return { tokens, next };
}

// halves returns a matrix of 16-bit floats that is 1 at the given places, and 0 elsewhere.
function halves(rows, columns, places) {
  const data = Buffer.alloc(rows * columns * 2);
  for (const [row, column] of places) data.writeUInt16LE(0x3c00, (row * columns + column) * 2);
  return { dimensions: [columns, rows], type: F16, data };
}

// ones returns a vector of floats that are 1.
function ones(n) {
  const data = Buffer.alloc(n * 4);
  for (let i = 0; i < n; i++) data.writeFloatLE(1, i * 4);
  return { dimensions: [n], type: F32, data };
}

// tensors returns the weights by their names.
function tensors({ tokens, next }) {
  const size = tokens.length;
  const zero = (rows, columns) => halves(rows, columns, []);
  return {
    "token_embd.weight": halves(size, EMBEDDING, tokens.map((_, i) => [i, i])),
    "output_norm.weight": ones(EMBEDDING),
    "output.weight": halves(size, EMBEDDING, [...next].map(([from, to]) => [to, from])),
    "blk.0.attn_norm.weight": ones(EMBEDDING),
    "blk.0.ffn_norm.weight": ones(EMBEDDING),
    ...Object.fromEntries(["attn_q", "attn_k", "attn_v", "attn_output"].map((name) => [`blk.0.${name}.weight`, zero(EMBEDDING, EMBEDDING)])),
    "blk.0.ffn_gate.weight": zero(FEED_FORWARD, EMBEDDING),
    "blk.0.ffn_up.weight": zero(FEED_FORWARD, EMBEDDING),
    "blk.0.ffn_down.weight": zero(EMBEDDING, FEED_FORWARD),
  };
}

// The encodings of the format: little-endian numbers, and texts with their length.
const u32 = (n) => { const b = Buffer.alloc(4); b.writeUInt32LE(n); return b; };
const i32 = (n) => { const b = Buffer.alloc(4); b.writeInt32LE(n); return b; };
const u64 = (n) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(n)); return b; };
const f32 = (n) => { const b = Buffer.alloc(4); b.writeFloatLE(n); return b; };
const text = (s) => { const b = Buffer.from(s); return Buffer.concat([u64(b.length), b]); };

// The types of values.
const value = {
  u32: (n) => [u32(4), u32(n)],
  f32: (n) => [u32(6), f32(n)],
  bool: (b) => [u32(7), Buffer.from([b ? 1 : 0])],
  text: (s) => [u32(8), text(s)],
  list: (type, encode, list) => [u32(9), u32(type), u64(list.length), ...list.map(encode)],
};

// metadata returns the fields of the file.
function metadata({ tokens }) {
  return {
    "general.architecture": value.text("llama"),
    "general.name": value.text("markov"),
    "llama.context_length": value.u32(CONTEXT),
    "llama.embedding_length": value.u32(EMBEDDING),
    "llama.block_count": value.u32(1),
    "llama.feed_forward_length": value.u32(FEED_FORWARD),
    "llama.attention.head_count": value.u32(HEADS),
    "llama.attention.head_count_kv": value.u32(HEADS),
    "llama.rope.dimension_count": value.u32(EMBEDDING / HEADS),
    "llama.attention.layer_norm_rms_epsilon": value.f32(1e-5),
    "llama.vocab_size": value.u32(tokens.length),
    "tokenizer.ggml.model": value.text("llama"),
    "tokenizer.ggml.tokens": value.list(8, text, tokens.map((t) => t.text)),
    "tokenizer.ggml.scores": value.list(6, f32, tokens.map((t) => (t.kind === USER ? 0 : -1000))),
    "tokenizer.ggml.token_type": value.list(5, i32, tokens.map((t) => t.kind)),
    "tokenizer.ggml.unknown_token_id": value.u32(0),
    "tokenizer.ggml.bos_token_id": value.u32(1),
    "tokenizer.ggml.eos_token_id": value.u32(2),
    "tokenizer.ggml.add_bos_token": value.bool(true),
    "tokenizer.ggml.add_space_prefix": value.bool(false),
  };
}

const padded = (n) => Math.ceil(n / ALIGNMENT) * ALIGNMENT;
const padding = (n) => Buffer.alloc(padded(n) - n);

// gguf returns the file of a model that says chains: an object of lists of pieces, by the names of the tokens that they
// begin at.
export function gguf(chains) {
  const words = vocabulary(chains);
  const fields = Object.entries(metadata(words));
  const weights = Object.entries(tensors(words));
  const head = [Buffer.from("GGUF"), u32(3), u64(weights.length), u64(fields.length)];
  for (const [name, parts] of fields) head.push(text(name), ...parts);
  let offset = 0;
  for (const [name, { dimensions, type, data }] of weights) {
    head.push(text(name), u32(dimensions.length), ...dimensions.map(u64), u32(type), u64(offset));
    offset += padded(data.length);
  }
  const begin = Buffer.concat(head);
  return Buffer.concat([begin, padding(begin.length), ...weights.flatMap(([, { data }]) => [data, padding(data.length)])]);
}
