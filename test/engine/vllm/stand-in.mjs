/**
 * A stand-in for a vLLM server: `node stand-in.mjs '{"model": FILE, "port": N or 0, ...}'`. It speaks as much of vLLM 0.32's
 * protocol as hone uses, with answers as the real one gives them, and computes with hone's own engine, so that its ids,
 * log-probabilities and adapters are real. It prints "ready" and its port.
 *
 * What it does wrong on request: `logprobsMode` "raw_logprobs", `maxLoras`, `maxRank`, `maxLength`, `lora` false (no runtime
 * adapters), `blind` (does not see the folder), `deaf` (answers with the base model where an adapter is asked for), `apart`
 * (two API servers: each connection meets the other one), `defaults` (a generation_config), `delay` in ms before an answer,
 * `failing` (a path at which it answers 503).
 * `dtype` "bfloat16" or "float16": it rounds adapters as vLLM does, and computes as ever.
 */
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadEngine } from "../../../dist/src/engine/factory.js";

const {
  model,
  port,
  contextPerSequence = 1024,
  maxLength = contextPerSequence + 1,
  maxLoras = 2,
  maxRank = 16,
  logprobsMode = "processed_logprobs",
  lora = true,
  blind = false,
  deaf = false,
  apart = false,
  defaults = {},
  delay = 0,
  failing = "",
  dtype = "float32",
} = JSON.parse(process.argv[2]);

const folder = mkdtempSync(join(tmpdir(), "hone-vllm-stand-in-"));
const open = (name) =>
  loadEngine({ model, name, gpu: false, threads: 1, lanes: 1, sequences: 8, contextPerSequence: maxLength + 1 });
const base = await open("");
const adapters = new Map();

/** The nearest number with so many bits, the leading one included. */
function rounded(value, bits) {
  if (value === 0) return 0;
  const unit = 2 ** (Math.floor(Math.log2(Math.abs(value))) - bits + 1);
  const scaled = value / unit;
  const down = Math.floor(scaled);
  const up = scaled - down > 0.5 || (scaled - down === 0.5 && down % 2 !== 0);
  return (down + (up ? 1 : 0)) * unit;
}
const BITS = { bfloat16: 8, float16: 11 };

/** lora_a and lora_b in `dtype`, then lora_b times alpha / rank in it. */
function asServed(data, side, scaling) {
  const bits = BITS[dtype];
  if (bits === undefined) return data;
  const floats = new Float32Array(data.buffer.slice(data.byteOffset, data.byteOffset + data.length));
  const kept = floats.map((value) => {
    const own = rounded(value, bits);
    return side === "A" ? own : rounded(own * scaling, bits) / scaling;
  });
  return Buffer.from(kept.buffer);
}

const LAYERS = {
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
};

/** Converts an adapter of PEFT's in f32 to GGUF, for models without llama.cpp's permutation (Qwen2). */
function toGguf(peft, file) {
  const { lora_alpha: alpha, r } = JSON.parse(readFileSync(join(peft, "adapter_config.json"), "utf8"));
  const bytes = readFileSync(join(peft, "adapter_model.safetensors"));
  const length = Number(bytes.readBigUInt64LE(0));
  const tensors = Object.entries(JSON.parse(bytes.subarray(8, 8 + length).toString()))
    .filter(([name]) => name !== "__metadata__")
    .map(
      ([
        name,
        {
          shape,
          data_offsets: [start, end],
        },
      ]) => {
        const [, layer, linear, side] = /layers\.(\d+)\.(\w+\.\w+)\.lora_([AB])\.weight$/.exec(name);
        const data = asServed(bytes.subarray(8 + length + start, 8 + length + end), side, alpha / r);
        return { name: `blk.${layer}.${LAYERS[linear]}.weight.lora_${side.toLowerCase()}`, shape, data };
      },
    );
  const parts = [];
  const u32 = (value) => parts.push(Buffer.from(Uint32Array.of(value).buffer));
  const u64 = (value) => parts.push(Buffer.from(BigUint64Array.of(BigInt(value)).buffer));
  const text = (value) => {
    u64(Buffer.byteLength(value));
    parts.push(Buffer.from(value));
  };
  const pad = (size) => parts.push(Buffer.alloc((32 - (size % 32)) % 32));
  parts.push(Buffer.from("GGUF"));
  u32(3);
  u64(tensors.length);
  u64(4);
  for (const [key, value] of [
    ["general.type", "adapter"],
    ["general.architecture", base.info.architecture],
    ["adapter.type", "lora"],
  ]) {
    text(key);
    u32(8);
    text(value);
  }
  text("adapter.lora.alpha");
  u32(6);
  parts.push(Buffer.from(Float32Array.of(alpha).buffer));
  let offset = 0;
  for (const { name, shape, data } of tensors) {
    text(name);
    u32(shape.length);
    for (const size of shape.toReversed()) u64(size);
    u32(0);
    u64(offset);
    offset += Math.ceil(data.length / 32) * 32;
  }
  pad(parts.reduce((sum, part) => sum + part.length, 0));
  for (const { data } of tensors) {
    parts.push(data);
    pad(data.length);
  }
  writeFileSync(file, Buffer.concat(parts));
}

const refuse = (code, message, type = "BadRequestError") => ({
  code,
  body: { error: { message, type, param: null, code } },
});
const acknowledge = (message) => ({ code: 200, text: message });

async function load({ lora_name: name, lora_path: path }) {
  if (adapters.has(name))
    return refuse(
      400,
      `The lora adapter '${name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.`,
    );
  if (blind || !existsSync(path)) {
    return refuse(404, `Loading lora ${name} failed: No adapter found for ${path}`, "NotFoundError");
  }
  const { r } = JSON.parse(readFileSync(join(path, "adapter_config.json"), "utf8"));
  if (r > maxRank) {
    const message = `LoRA rank ${r} is greater than max_lora_rank ${maxRank}.`;
    return refuse(500, `Call to add_lora method failed: ${message}`, "InternalServerError");
  }
  const file = join(folder, `${name}.gguf`);
  toGguf(path, file);
  const engine = await open(name);
  if (!deaf) await engine.useAdapter(file);
  adapters.set(name, engine);
  return acknowledge(`Success: LoRA adapter '${name}' added successfully.`);
}

async function unload({ lora_name: name }) {
  const engine = adapters.get(name);
  if (!engine) return refuse(404, `The lora adapter '${name}' cannot be found.`, "NotFoundError");
  adapters.delete(name);
  await engine.close();
  return acknowledge(`Success: LoRA adapter '${name}' removed successfully.`);
}

/** Scores under the raw softmax of tokens that followed a prompt. */
const scoreAfter = (engine, prompt, tokens) =>
  engine.score(Int32Array.from([...prompt, ...tokens]), { from: prompt.length });

async function complete(asked, signal) {
  const engine = asked.model === "base" ? base : adapters.get(asked.model);
  if (!engine) return refuse(404, `The model \`${asked.model}\` does not exist.`, "NotFoundError");
  const { prompt, max_tokens: maxTokens = 16 } = asked;
  if (prompt.length + maxTokens > maxLength) {
    return refuse(400, `This model's maximum context length is ${maxLength} tokens.`);
  }
  if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
  const sequence = engine.open(Int32Array.from(prompt));
  try {
    const sampling = {
      temperature: asked.temperature ?? defaults.temperature ?? 1,
      topK: Math.max(0, asked.top_k ?? defaults.top_k ?? 0),
      topP: asked.top_p ?? defaults.top_p ?? 1,
      minP: asked.min_p ?? 0,
      seed: Number(asked.seed ?? 0),
    };
    const stop = [...(asked.stop_token_ids ?? []), ...(asked.ignore_eos ? [] : base.info.endTokens)];
    const turn = await sequence.generate({ maxTokens, sampling, stop, signal });
    const tokens = [...turn.tokens];
    const raw = logprobsMode === "raw_logprobs" && tokens.length > 0;
    const logprobs = raw ? await scoreAfter(engine, prompt, tokens) : turn.logprobs;
    const scores = asked.prompt_logprobs === undefined ? [] : await engine.score(Int32Array.from(prompt));
    const body = {
      id: "cmpl-0",
      object: "text_completion",
      model: asked.model,
      choices: [
        {
          index: 0,
          text: engine.detokenize(tokens),
          logprobs: asked.logprobs === undefined ? null : { token_logprobs: [...logprobs] },
          finish_reason: turn.stop === "stop" ? "stop" : "length",
          stop_reason: turn.stop === "stop" ? tokens.at(-1) : null,
          token_ids: asked.return_token_ids ? tokens : null,
          prompt_logprobs:
            asked.prompt_logprobs === undefined
              ? null
              : [null, ...[...scores].map((logprob, i) => ({ [prompt[i + 1]]: { logprob, rank: 1 } }))],
        },
      ],
    };
    return { code: 200, body };
  } finally {
    sequence.close();
  }
}

const card = (id, parent) => ({
  id,
  object: "model",
  owned_by: "vllm",
  root: id,
  parent,
  max_model_len: parent ? null : maxLength,
});
let connections = 0;

async function answer(path, body, signal, connection) {
  const known = apart && connection % 2 === 1 ? [] : [...adapters.keys()];
  if (path === failing) return { code: 503, text: "failing" };
  if (path === "/health") return { code: 200, text: "" };
  if (path === "/version") return { code: 200, body: { version: "0.32.0" } };
  if (path === "/v1/models") {
    return { code: 200, body: { object: "list", data: [card("base", null), ...known.map((id) => card(id, "base"))] } };
  }
  if (path === "/metrics") {
    return { code: 200, text: `vllm:lora_requests_info{max_lora="${maxLoras}",running_lora_adapters=""} 1.0\n` };
  }
  if (path === "/tokenize") {
    const tokens = [...base.tokenize(body.prompt, { special: false })];
    return { code: 200, body: { count: tokens.length, max_model_len: maxLength, tokens } };
  }
  if (path === "/v1/completions") return complete(body, signal);
  if (lora && path === "/v1/load_lora_adapter") return load(body);
  if (lora && path === "/v1/unload_lora_adapter") return unload(body);
  return { code: 404, body: { detail: "Not Found" } };
}

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const text = Buffer.concat(parts).toString();
  try {
    const body = text === "" ? undefined : JSON.parse(text);
    const { code, body: said, text: plain } = await answer(request.url, body, gone.signal, request.socket.number);
    response.writeHead(code, { "content-type": plain === undefined ? "application/json" : "text/plain" });
    response.end(plain ?? JSON.stringify(said));
    if (process.env.STAND_IN_LOG) console.log(JSON.stringify({ path: request.url, code, body }));
  } catch (error) {
    response.writeHead(500).end(JSON.stringify(refuse(500, String(error), "InternalServerError").body));
  }
});
server.on("connection", (socket) => {
  socket.number = connections++;
});
server.listen(port, "127.0.0.1", () => console.log(`ready ${server.address().port}`));
