// Damages the header of a GGUF file in many ways and uses each result as a model: reads its header, loads it, plays a few
// tokens. A process of its own, started by damaged.test.ts: if anything dies, it is this one. Prints a line before each
// mutant and one after it, as JSON.
//
// node damaged-fuzz.mjs MODEL FOLDER SEED FROM COUNT
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [model, folder, seed, from, count] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(join(import.meta.dirname, "../../dist/src", path)).href);
const { conversingModel } = await load("machine/models/header.js");
const { loadEngine } = await load("engine/factory.js");
const { Random } = await load("core/util/random.js");

/** GGUF's types of values, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. */
const SIZES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
const [UINT32, FLOAT32, STRING, ARRAY] = [4, 6, 8, 9];

/** Keys and tensors with the places of their parts. */
function parse(bytes) {
  let at = 8;
  const pass = (length) => {
    at += length;
    return at - length;
  };
  const u32 = () => bytes.readUInt32LE(pass(4));
  const u64 = () => Number(bytes.readBigUInt64LE(pass(8)));
  const text = () => {
    const start = pass(u64());
    return bytes.toString("utf8", start, at);
  };
  const [tensorCount, keyCount] = [u64(), u64()];
  const skip = (type) => {
    if (type === STRING) text();
    else if (type === ARRAY) {
      const inner = u32();
      const length = u64();
      for (let i = 0; i < length; i++) skip(inner);
    } else at += SIZES[type];
  };
  const keys = Array.from({ length: keyCount }, () => {
    const start = at;
    const key = text();
    const typeAt = at;
    const type = u32();
    const valueAt = at;
    skip(type);
    return { key, start, typeAt, type, valueAt, end: at };
  });
  const tensors = Array.from({ length: tensorCount }, () => {
    const start = at;
    const name = text();
    const dimensionsAt = at;
    const dimensions = Array.from({ length: u32() }, u64);
    const typeAt = at;
    const type = u32();
    const offsetAt = at;
    u64();
    return { name, start, dimensionsAt, dimensions, typeAt, type, offsetAt, end: at };
  });
  return { keys, tensors, end: at };
}

const whole = readFileSync(model);
const { keys, tensors, end } = parse(whole);
const alignment = 32;
const data = whole.subarray(Math.ceil(end / alignment) * alignment);

/** Numbers and bytes of a block, by the number of ggml's type. */
const BLOCKS = {
  ...{
    0: [1, 4],
    1: [1, 2],
    2: [32, 18],
    3: [32, 20],
    6: [32, 22],
    7: [32, 24],
    8: [32, 34],
    9: [32, 36],
    10: [256, 84],
  },
  ...{ 11: [256, 110], 12: [256, 144], 13: [256, 176], 14: [256, 210], 15: [256, 292], 16: [256, 66], 17: [256, 74] },
  ...{
    18: [256, 98],
    19: [256, 50],
    20: [32, 18],
    21: [256, 110],
    22: [256, 82],
    23: [256, 136],
    24: [1, 1],
    25: [1, 2],
  },
  ...{ 26: [1, 4], 27: [1, 8], 28: [1, 8], 29: [256, 56], 30: [1, 2], 34: [256, 54], 35: [256, 66], 39: [32, 17] },
};

/** A file with these tensors, each at the place where llama.cpp expects it, and data of their lengths. */
function laidOut(list) {
  let offset = 0;
  const infos = list.map(({ name, dimensions, type }) => {
    const [numbers, bytes] = BLOCKS[type];
    const info = [text(name), u32(dimensions.length), ...dimensions.map(u64), u32(type), u64(offset)];
    const length = Math.ceil(dimensions.reduce((product, size) => product * size, 1) / numbers) * bytes;
    offset += Math.ceil(length / alignment) * alignment;
    return Buffer.concat(info);
  });
  const count = Buffer.from(whole.subarray(0, tensors[0].start));
  count.writeBigUInt64LE(BigInt(list.length), 8);
  const head = Buffer.concat([count, ...infos]);
  const padding = Buffer.alloc((alignment - (head.length % alignment)) % alignment);
  return Buffer.concat([head, padding, data.subarray(0, offset), Buffer.alloc(Math.max(0, offset - data.length), 1)]);
}

/** The file with these parts of its header in place of others, its weights moved to where they then belong. */
function replaced(...changes) {
  const parts = [];
  let at = 0;
  for (const [start, stop, bytes] of changes.sort(([a], [b]) => a - b)) {
    parts.push(whole.subarray(at, start), bytes);
    at = stop;
  }
  parts.push(whole.subarray(at, end));
  const head = Buffer.concat(parts);
  const padding = Buffer.alloc((alignment - (head.length % alignment)) % alignment);
  return Buffer.concat([head, padding, data]);
}

const u32 = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
};
const f32 = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
};
const u64 = (value) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)));
  return bytes;
};
const text = (value) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const counted = (keyCount) => [16, 24, u64(keyCount)];

const NUMBERS = [0, 1, 2, 3, 5, 7, 100, 1023, 65536, 2 ** 20, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
const FLOATS = [0, -1, 1e-40, 1e38, Number.NaN, Infinity, -Infinity];
const LONGS = [0n, 1n, 2n ** 31n, 2n ** 32n, 2n ** 40n, 2n ** 53n, 2n ** 62n, 2n ** 63n, 2n ** 64n - 1n];

/** The ways in which one key is damaged: [what, the file]. */
const ofKey = {
  dropped: ({ start, end: stop }) => replaced([start, stop, Buffer.alloc(0)], counted(keys.length - 1)),
  doubled: ({ start, end: stop }) => replaced([stop, stop, whole.subarray(start, stop)], counted(keys.length + 1)),
  number: ({ typeAt, end: stop }, random) =>
    replaced([typeAt, stop, Buffer.concat([u32(UINT32), u32(random.pick(NUMBERS))])]),
  float: ({ typeAt, end: stop }, random) =>
    replaced([typeAt, stop, Buffer.concat([u32(FLOAT32), f32(random.pick(FLOATS))])]),
  text: ({ typeAt, end: stop }, random) =>
    replaced([
      typeAt,
      stop,
      Buffer.concat([
        u32(STRING),
        text(random.pick(["", "no", "\u0000", "x".repeat(5000), "llama", "gpt2", "t5", "bert", "rwkv", "none"])),
      ]),
    ]),
  "other type": ({ typeAt }, random) =>
    replaced([typeAt, typeAt + 4, u32(random.pick([0, 1, 5, 7, 8, 9, 10, 12, 13, 2 ** 31]))]),
  "empty array": ({ typeAt, end: stop }, random) =>
    replaced([typeAt, stop, Buffer.concat([u32(ARRAY), u32(random.pick([4, 5, 6, 8, 9])), u64(0)])]),
  array: ({ typeAt, end: stop }, random) => {
    const length = random.pick([1, 2, 3, 4, 600]);
    const values = Array.from({ length }, () => u32(random.pick(NUMBERS)));
    return replaced([typeAt, stop, Buffer.concat([u32(ARRAY), u32(random.pick([4, 5, 6])), u64(length), ...values])]);
  },
  "nested array": ({ typeAt, end: stop }, random) => {
    const depth = random.pick([1, 2, 1000, 100_000]);
    const open = Array.from({ length: depth }, () => [u32(ARRAY), u64(1)]).flat();
    return replaced([typeAt, stop, Buffer.concat([u32(ARRAY), ...open, u32(UINT32), u64(0)])]);
  },
  "long array": ({ typeAt, valueAt }, random) =>
    replaced([typeAt, valueAt, Buffer.concat([u32(ARRAY), u32(random.pick([0, 4, 8, 9])), u64(random.pick(LONGS))])]),
};

/** The list of tensors with another in place of one; without it where there is no other. */
const inPlaceOf = (one, ...others) => laidOut(tensors.flatMap((tensor) => (tensor === one ? others : [tensor])));
const types = Object.keys(BLOCKS).map(Number);

/** The ways in which one tensor is damaged. */
const ofTensor = {
  dropped: (tensor) => inPlaceOf(tensor),
  doubled: (tensor) => inPlaceOf(tensor, tensor, { ...tensor, name: `${tensor.name}.again` }),
  "other's name": (tensor, random) => {
    const other = random.pick(tensors);
    const named = (one) => (one === tensor ? other.name : one === other ? tensor.name : one.name);
    return laidOut(tensors.map((one) => ({ ...one, name: named(one) })));
  },
  "unknown name": ({ start, dimensionsAt }) => replaced([start, dimensionsAt, text("x".repeat(70))]),
  type: (tensor, random) => inPlaceOf(tensor, { ...tensor, type: random.pick(types) }),
  "unknown type": ({ typeAt }, random) => replaced([typeAt, typeAt + 4, u32(random.pick([4, 31, 36, 99, 2 ** 31]))]),
  "other size": (tensor, random) => {
    const dimensions = [...tensor.dimensions];
    dimensions[random.integer(0, dimensions.length - 1)] = random.pick([0, 1, 2, 32, 64, 256, 1000]);
    return inPlaceOf(tensor, { ...tensor, dimensions });
  },
  turned: (tensor) => inPlaceOf(tensor, { ...tensor, dimensions: [...tensor.dimensions, 1].reverse() }),
  flat: (tensor) =>
    inPlaceOf(tensor, { ...tensor, dimensions: [tensor.dimensions.reduce((product, size) => product * size, 1)] }),
  size: ({ dimensionsAt, dimensions }, random) => {
    const at = dimensionsAt + 4 + 8 * random.integer(0, dimensions.length - 1);
    return replaced([at, at + 8, u64(random.pick([...LONGS, 3n, 64n]))]);
  },
  "number of sizes": ({ dimensionsAt }, random) =>
    replaced([dimensionsAt, dimensionsAt + 4, u32(random.pick([0, 1, 2, 3, 4, 5, 2 ** 31]))]),
  offset: ({ offsetAt }, random) => replaced([offsetAt, offsetAt + 8, u64(random.pick([...LONGS, 32n, 33n]))]),
};

const architecture = keys.find(({ key }) => key.endsWith(".block_count")).key.split(".")[0];
const OTHERS = [
  "llama",
  "qwen3",
  "qwen2",
  "gemma3",
  "phi3",
  "mamba",
  "bert",
  "t5",
  "clip",
  "qwen2moe",
  "gptneox",
  "no",
];

/** The same sizes as those of another architecture. */
function otherArchitecture(random) {
  const other = random.pick(OTHERS);
  const changes = keys.flatMap(({ key, start, typeAt, end: stop }) => {
    if (key === "general.architecture") return [[typeAt, stop, Buffer.concat([u32(STRING), text(other)])]];
    return key.startsWith(`${architecture}.`) ? [[start, typeAt, text(key.replace(architecture, other))]] : [];
  });
  return [`architecture ${other}`, replaced(...changes)];
}

/** Several bytes of the vocabulary: texts, types and merges of tokens. */
function otherVocabulary(random) {
  const bytes = Buffer.from(whole);
  const parts = keys.filter(({ key }) => /^tokenizer\.ggml\.(tokens|token_type|merges)$/.test(key));
  const { key, valueAt, end: stop } = random.pick(parts);
  const value = random.integer(0, 255);
  for (let changes = random.pick([1, 3, 30]); changes > 0; changes--)
    bytes[random.integer(valueAt + 12, stop - 1)] = value;
  return [`${key}: bytes ${value}`, bytes];
}

function anywhere(random) {
  const bytes = Buffer.from(whole);
  for (let changes = 1 + random.integer(0, 4 - 1); changes > 0; changes--)
    bytes[random.integer(0, end - 1)] = random.integer(0, 256 - 1);
  return bytes;
}

/** A random mutant: its description and its bytes. */
function mutant(random) {
  const kind = random.float();
  if (kind < 0.05) {
    const length = random.integer(0, end - 1);
    return [`cut at ${length}`, whole.subarray(0, length)];
  }
  if (kind < 0.12) return ["bytes", anywhere(random)];
  if (kind < 0.17) return otherArchitecture(random);
  if (kind < 0.22) return otherVocabulary(random);
  const [what, ways, name] = kind < 0.65 ? [random.pick(keys), ofKey, "key"] : [random.pick(tensors), ofTensor, "name"];
  const way = random.pick(Object.keys(ways));
  return [`${what[name]}: ${way}`, ways[way](what, random)];
}

async function use(file) {
  await conversingModel(file);
  const engine = await loadEngine({ model: file, gpu: false, threads: 1, sequences: 1, contextPerSequence: 64 });
  try {
    engine.tokenize("A question, <tool_call> and 12.", { special: true });
    const sequence = engine.open(Int32Array.of(1, 2, 3));
    await sequence.generate({ maxTokens: 2, sampling: { seed: 1 }, stop: [] });
    sequence.close();
  } finally {
    await engine.close();
  }
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
for (let index = Number(from); index < Number(from) + Number(count); index++) {
  const [what, bytes] = mutant(new Random("damaged", seed, index));
  say({ index, what });
  const file = join(folder, `damaged-${index}.gguf`);
  writeFileSync(file, bytes);
  try {
    await use(file);
    say({ index, what, outcome: "loaded" });
  } catch (error) {
    const known = error instanceof Error && ["HoneError", "UsageError"].includes(error.name);
    say({
      index,
      what,
      outcome: known ? "refused" : "trace",
      message: known ? error.message : (error?.stack ?? String(error)),
    });
  }
  rmSync(file);
}
