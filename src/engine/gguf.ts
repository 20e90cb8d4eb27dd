/**
 * Reads the header of a GGUF file: its keys and its list of tensors, not their data. Nothing in it is trusted: lengths are
 * compared with the file before anything is allocated. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */
import { OpenFile } from "../core/util/files.js";

/** A number's bytes, and how it is read. */
interface NumberType {
  readonly size: number;
  readonly read: (bytes: Buffer, at: number) => number;
}

/** Types of values by their number; undefined: texts and arrays. */
const TYPES: readonly (NumberType | undefined)[] = [
  { size: 1, read: (bytes, at) => bytes.readUInt8(at) },
  { size: 1, read: (bytes, at) => bytes.readInt8(at) },
  { size: 2, read: (bytes, at) => bytes.readUInt16LE(at) },
  { size: 2, read: (bytes, at) => bytes.readInt16LE(at) },
  { size: 4, read: (bytes, at) => bytes.readUInt32LE(at) },
  { size: 4, read: (bytes, at) => bytes.readInt32LE(at) },
  { size: 4, read: (bytes, at) => bytes.readFloatLE(at) },
  { size: 1, read: (bytes, at) => bytes.readUInt8(at) },
  undefined,
  undefined,
  { size: 8, read: (bytes, at) => Number(bytes.readBigUInt64LE(at)) },
  { size: 8, read: (bytes, at) => Number(bytes.readBigInt64LE(at)) },
  { size: 8, read: (bytes, at) => bytes.readDoubleLE(at) },
];
const BOOL = 7;
const STRING = 8;
const ARRAY = 9;

/** Types of tensors that hold weights with which llama.cpp computes, by ggml's number; the others are integers and parts of sums. */
const WEIGHT_TYPES: Readonly<Record<number, string>> = {
  0: "F32",
  1: "F16",
  2: "Q4_0",
  3: "Q4_1",
  6: "Q5_0",
  7: "Q5_1",
  8: "Q8_0",
  10: "Q2_K",
  11: "Q3_K",
  12: "Q4_K",
  13: "Q5_K",
  14: "Q6_K",
  16: "IQ2_XXS",
  17: "IQ2_XS",
  18: "IQ3_XXS",
  19: "IQ1_S",
  20: "IQ4_NL",
  21: "IQ3_S",
  22: "IQ2_S",
  23: "IQ4_XS",
  29: "IQ1_M",
  30: "BF16",
  34: "TQ1_0",
  35: "TQ2_0",
  39: "MXFP4",
  40: "NVFP4",
  41: "Q1_0",
  42: "Q2_0",
};

/** Bytes read at first; a vocabulary of 150,000 tokens takes 6 MB. */
const FIRST = 1 << 20;
const MOST = 1 << 28;
const MOST_SIZES = 4;

/** Why a file cannot be read, as a clause. */
class DamagedGguf extends Error {}

export interface GgufArray {
  readonly length: number;
  /** Of an array of numbers or truth values. */
  numbers(): number[];
  /** Of an array of strings; bytes that are no UTF-8 become U+FFFD. */
  texts(): string[];
  /** As {@link texts}, one character for each byte. */
  bytes(): string[];
}

/** Integers above 2^53 are rounded. */
export type GgufValue = number | boolean | string | GgufArray;

export interface GgufTensor {
  readonly name: string;
  /** The first changes fastest. */
  readonly dimensions: readonly number[];
  /** Of its weights, as llama.cpp names it; undefined where it has none that llama.cpp computes with. */
  readonly type: string | undefined;
}

export interface GgufHeader {
  readonly values: ReadonlyMap<string, GgufValue>;
  readonly tensors: readonly GgufTensor[];
}

/** The beginning of a file, as much of it as was asked for. */
class Beginning {
  readonly #file: OpenFile;
  readonly #size: number;
  #bytes = Buffer.alloc(0);
  at = 0;

  constructor(file: OpenFile) {
    this.#file = file;
    this.#size = file.size;
  }

  /** The place of the next `length` bytes, which are in {@link bytes} then and have been passed. */
  take(length: number): number {
    const start = this.at;
    const end = start + length;
    if (end > this.#size) throw new DamagedGguf("it ends within its header");
    if (end > MOST) throw new DamagedGguf(`its header is longer than ${MOST >> 20} MiB`);
    if (end > this.#bytes.length) this.#grow(end);
    this.at = end;
    return start;
  }

  /** Another buffer after {@link take} where that had to read more. */
  get bytes(): Buffer {
    return this.#bytes;
  }

  #grow(needed: number): void {
    const have = this.#bytes.length;
    const more = Math.min(this.#size, Math.max(FIRST, 2 * have, needed)) - have;
    const read = this.#file.bytes(have, more);
    if (read.length < more) throw new DamagedGguf("it ends within its header");
    this.#bytes = Buffer.concat([this.#bytes, read]);
  }

  uint32(): number {
    const at = this.take(4);
    return this.bytes.readUInt32LE(at);
  }

  /** A length or a size. */
  count(what: string): number {
    const at = this.take(8);
    const count = this.bytes.readBigUInt64LE(at);
    if (count > Number.MAX_SAFE_INTEGER) throw new DamagedGguf(`it has ${count} ${what}`);
    return Number(count);
  }

  /** The place of a string's bytes. */
  textAt(): { from: number; to: number } {
    const length = this.count("bytes of a text");
    const from = this.take(length);
    return { from, to: from + length };
  }

  text(): string {
    const { from, to } = this.textAt();
    return this.bytes.toString("utf8", from, to);
  }
}

function typeOf(file: Beginning, key: string): number {
  const type = file.uint32();
  if (type >= TYPES.length) throw new DamagedGguf(`${shown(key)} has the unknown type ${type}`);
  return type;
}

function readArray(file: Beginning, key: string): GgufArray {
  const type = typeOf(file, key);
  const length = file.count(`values of ${shown(key)}`);
  const number = TYPES[type];
  if (number) {
    const { size, read } = number;
    const from = file.take(size * length);
    const { bytes } = file;
    return {
      length,
      numbers: () => Array.from({ length }, (_, index) => read(bytes, from + size * index)),
      texts: () => [],
      bytes: () => [],
    };
  }
  if (type !== STRING) throw new DamagedGguf(`${shown(key)} is an array of arrays`);
  const from = file.at;
  for (let index = 0; index < length; index++) file.textAt();
  const { bytes } = file;
  const decoded = (encoding: "utf8" | "latin1") => {
    let at = from;
    return Array.from({ length }, () => {
      const start = at + 8;
      at = start + Number(bytes.readBigUInt64LE(at));
      return bytes.toString(encoding, start, at);
    });
  };
  return { length, numbers: () => [], texts: () => decoded("utf8"), bytes: () => decoded("latin1") };
}

function readValue(file: Beginning, key: string): GgufValue {
  const type = typeOf(file, key);
  if (type === ARRAY) return readArray(file, key);
  const numbers = TYPES[type];
  if (!numbers) return file.text();
  const at = file.take(numbers.size);
  const number = numbers.read(file.bytes, at);
  return type === BOOL ? number !== 0 : number;
}

/** A name from the file, for a message. */
const shown = (name: string) => JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}...` : name);

function readTensor(file: Beginning): GgufTensor {
  const name = file.text();
  const count = file.uint32();
  if (count > MOST_SIZES) throw new DamagedGguf(`the tensor ${shown(name)} has ${count} dimensions`);
  const dimensions = Array.from({ length: count }, () => file.count(`numbers in ${shown(name)}`));
  const type = WEIGHT_TYPES[file.uint32()];
  file.take(8); // the place of its data, which llama.cpp compares with the file
  return { name, dimensions, type };
}

/** @throws DamagedGguf when the file is no GGUF file, or not whole */
export function readGguf(path: string): GgufHeader {
  using opened = new OpenFile(path);
  const file = new Beginning(opened);
  const start = file.take(4);
  if (file.bytes.toString("latin1", start, 4) !== "GGUF") throw new DamagedGguf("it does not begin with GGUF");
  const version = file.uint32();
  if (version < 2 || version > 3) throw new DamagedGguf(`its version is ${version}; 2 and 3 are read`);
  const [tensorCount, keyCount] = [file.count("tensors"), file.count("keys")];
  const values = new Map<string, GgufValue>();
  for (let index = 0; index < keyCount; index++) {
    const key = file.text();
    if (values.has(key)) throw new DamagedGguf(`${shown(key)} is in it twice`);
    values.set(key, readValue(file, key));
  }
  const tensors: GgufTensor[] = [];
  for (let index = 0; index < tensorCount; index++) tensors.push(readTensor(file));
  return { values, tensors };
}
