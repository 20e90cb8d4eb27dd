/**
 * A Qwen2 of 100 kB with random weights and a byte vocabulary, and LoRA adapters for it, written as GGUF: so that the
 * engine's own tests need nothing but the engine. Logits have a standard deviation of about 2.
 */
import { closeSync, mkdirSync, openSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { Random } from "../../src/core/util/random.js";

const HIDDEN = 64;
const LAYERS = 2;
const HEADS = 4;
const KV_HEADS = 2;
const INNER = 128;
const CONTEXT = 4096;
const HEAD = HIDDEN / HEADS;
const BYTES = 256;

export const tiny = { vocabulary: BYTES + 5, endOfText: 256, start: 257, end: 258, context: CONTEXT };

/** Types of tensors, as GGUF numbers them. */
const F32 = 0;
const BF16 = 30;

type Value =
  | { u32: number }
  | { f32: number }
  | { bool: boolean }
  | { text: string }
  | { texts: string[] }
  | { i32s: number[] };

class Writer {
  readonly #parts: Buffer[] = [];
  length = 0;

  bytes(bytes: Uint8Array): void {
    this.#parts.push(Buffer.from(bytes));
    this.length += bytes.length;
  }
  u32(value: number): void {
    const buffer = Buffer.alloc(4);
    buffer.writeUInt32LE(value);
    this.bytes(buffer);
  }
  u64(value: number): void {
    const buffer = Buffer.alloc(8);
    buffer.writeBigUInt64LE(BigInt(value));
    this.bytes(buffer);
  }
  text(value: string): void {
    const buffer = Buffer.from(value, "utf8");
    this.u64(buffer.length);
    this.bytes(buffer);
  }
  value(value: Value): void {
    if ("u32" in value) {
      this.u32(4);
      this.u32(value.u32);
    } else if ("f32" in value) {
      this.u32(6);
      this.bytes(new Uint8Array(Float32Array.of(value.f32).buffer));
    } else if ("bool" in value) {
      this.u32(7);
      this.bytes(Uint8Array.of(value.bool ? 1 : 0));
    } else if ("text" in value) {
      this.u32(8);
      this.text(value.text);
    } else if ("texts" in value) {
      this.u32(9);
      this.u32(8);
      this.u64(value.texts.length);
      for (const text of value.texts) this.text(text);
    } else {
      this.u32(9);
      this.u32(5);
      this.u64(value.i32s.length);
      this.bytes(new Uint8Array(Int32Array.from(value.i32s).buffer));
    }
  }
  align(): void {
    this.bytes(Buffer.alloc((32 - (this.length % 32)) % 32));
  }
  concat(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

/** `shape` as GGUF has it: the fastest dimension first. Numbers of 32 bits, or bf16. */
interface Tensor {
  name: string;
  shape: number[];
  data: Float32Array | Uint16Array;
}

export function writeGguf(path: string, fields: Record<string, Value>, tensors: Tensor[]): void {
  const out = new Writer();
  out.bytes(Buffer.from("GGUF"));
  out.u32(3);
  out.u64(tensors.length);
  out.u64(Object.keys(fields).length);
  for (const [key, value] of Object.entries(fields)) {
    out.text(key);
    out.value(value);
  }
  let offset = 0;
  for (const { name, shape, data } of tensors) {
    out.text(name);
    out.u32(shape.length);
    for (const size of shape) out.u64(size);
    out.u32(data instanceof Uint16Array ? BF16 : F32);
    out.u64(offset);
    offset += Math.ceil(data.byteLength / 32) * 32;
  }
  out.align();
  mkdirSync(dirname(path), { recursive: true });
  // Several test files may write it at once.
  const file = openSync(`${path}.${process.pid}`, "w");
  writeSync(file, out.concat());
  for (const { data } of tensors) {
    writeSync(file, new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    writeSync(file, Buffer.alloc((32 - (data.byteLength % 32)) % 32));
  }
  closeSync(file);
  renameSync(`${path}.${process.pid}`, path);
}

/** The upper halves of the numbers. */
const bf16 = (data: Float32Array) => new Uint16Array(data.buffer).filter((_, i) => i % 2 === 1);

/** About normal: the sum of uniform numbers. */
function noise(random: Random, count: number, deviation: number): Float32Array {
  const scale = deviation * Math.sqrt(3);
  return Float32Array.from(
    { length: count },
    () => scale * (random.float() + random.float() + random.float() + random.float() - 2),
  );
}

/** GPT-2's printable stand-ins for bytes, by byte. */
function byteTexts(): string[] {
  const printable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = BYTES;
  return Array.from({ length: BYTES }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++));
}

const attention: [name: string, outputs: number, inputs: number][] = [
  ["attn_q", HEADS * HEAD, HIDDEN],
  ["attn_k", KV_HEADS * HEAD, HIDDEN],
  ["attn_v", KV_HEADS * HEAD, HIDDEN],
  ["attn_output", HIDDEN, HEADS * HEAD],
];
const feedForward = (inner: number): [name: string, outputs: number, inputs: number][] => [
  ["ffn_gate", inner, HIDDEN],
  ["ffn_up", inner, HIDDEN],
  ["ffn_down", HIDDEN, inner],
];
const linears = [...attention, ...feedForward(INNER)];

export interface TinyModel {
  /**
   * Width of the feed-forward layers: of another than the usual one their weights are all the same, so that a large file is
   * written fast.
   */
  inner?: number;
  /** Of the matrices. */
  weights?: "f32" | "bf16";
  /** Tokens besides those of `tiny`. */
  words?: number;
}

export function writeTinyModel(path: string, { inner = INNER, weights = "f32", words = 0 }: TinyModel = {}): void {
  const random = new Random("tiny model");
  const matrix = (name: string, outputs: number, inputs: number, deviation: number): Tensor => ({
    name,
    shape: [inputs, outputs],
    data: stored(noise(random, outputs * inputs, deviation)),
  });
  const stored = (data: Float32Array) => (weights === "bf16" ? bf16(data) : data);
  const vector = (name: string, data: Float32Array): Tensor => ({ name, shape: [data.length], data });
  const wide = new Float32Array(inner === INNER ? 0 : inner * HIDDEN).fill(1e-4);
  const ones = () => new Float32Array(HIDDEN).fill(1);

  const tensors = [
    matrix("token_embd.weight", tiny.vocabulary + words, HIDDEN, 2 / Math.sqrt(HIDDEN)),
    vector("output_norm.weight", ones()),
  ];
  for (let layer = 0; layer < LAYERS; layer++) {
    const prefix = `blk.${layer}`;
    tensors.push(vector(`${prefix}.attn_norm.weight`, ones()), vector(`${prefix}.ffn_norm.weight`, ones()));
    for (const [name, outputs, inputs] of [...attention, ...feedForward(inner)]) {
      if (outputs * inputs === wide.length)
        tensors.push({ name: `${prefix}.${name}.weight`, shape: [inputs, outputs], data: stored(wide) });
      else tensors.push(matrix(`${prefix}.${name}.weight`, outputs, inputs, 1 / Math.sqrt(inputs)));
      if (/attn_[qkv]/.test(name)) tensors.push(vector(`${prefix}.${name}.bias`, noise(random, outputs, 0.1)));
    }
  }
  const more = Array.from({ length: words }, (_, i) => `w${i}`);
  const control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
  writeGguf(
    path,
    {
      "general.architecture": { text: "qwen2" },
      "general.file_type": { u32: weights === "bf16" ? 32 : 0 },
      "qwen2.context_length": { u32: CONTEXT },
      "qwen2.embedding_length": { u32: HIDDEN },
      "qwen2.block_count": { u32: LAYERS },
      "qwen2.feed_forward_length": { u32: inner },
      "qwen2.attention.head_count": { u32: HEADS },
      "qwen2.attention.head_count_kv": { u32: KV_HEADS },
      "qwen2.attention.layer_norm_rms_epsilon": { f32: 1e-6 },
      "qwen2.rope.freq_base": { f32: 1e6 },
      "tokenizer.ggml.model": { text: "gpt2" },
      "tokenizer.ggml.pre": { text: "qwen2" },
      "tokenizer.ggml.tokens": { texts: [...byteTexts(), ...control, "he", "the", ...more] },
      "tokenizer.ggml.token_type": {
        i32s: [...Array<number>(BYTES).fill(1), 3, 3, 3, ...Array<number>(2 + words).fill(1)],
      },
      "tokenizer.ggml.merges": { texts: ["h e", "t he"] },
      "tokenizer.ggml.eos_token_id": { u32: tiny.end },
      "tokenizer.ggml.bos_token_id": { u32: tiny.endOfText },
      "tokenizer.ggml.padding_token_id": { u32: tiny.endOfText },
      "tokenizer.ggml.add_bos_token": { bool: false },
      "tokenizer.chat_template": { text: "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}" },
      "tokenizer.chat_template.tool_use": { text: "{{ tools }}" },
    },
    tensors,
  );
}

/**
 * A random adapter on all linear layers, as strong whatever its rank; different names give different ones.
 *
 * @param of another model's layers
 */
export function writeTinyAdapter(path: string, name: string, rank = 4, of = { layers: LAYERS, linears }): void {
  const random = new Random("tiny adapter", name);
  const tensors = Array.from({ length: of.layers }, (_, layer) =>
    of.linears.flatMap(([linear, outputs, inputs]): Tensor[] => [
      {
        name: `blk.${layer}.${linear}.weight.lora_a`,
        shape: [inputs, rank],
        data: noise(random, rank * inputs, 1 / Math.sqrt(inputs)),
      },
      {
        name: `blk.${layer}.${linear}.weight.lora_b`,
        shape: [rank, outputs],
        data: noise(random, outputs * rank, 0.6 / Math.sqrt(rank)),
      },
    ]),
  ).flat();
  writeGguf(
    path,
    {
      "general.type": { text: "adapter" },
      "general.architecture": { text: "qwen2" },
      "adapter.type": { text: "lora" },
      "adapter.lora.alpha": { f32: 2 * rank },
    },
    tensors,
  );
}
