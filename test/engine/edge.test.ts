/** The addon's edge: what is not as its types say is refused in one line, before anything is read or begun. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { type NativeEngine, openAddon } from "../../src/engine/addon.js";
import { nativeSettings, newModel, prompt } from "./support.js";
import { tiny } from "./tiny-model.js";

const run = promisify(execFile);
const addon = await openAddon(false);
const settings = nativeSettings(newModel());
const native: NativeEngine = await addon.load(settings);
afterAll(() => native.close());

const ids = Int32Array.of(1, 2, 3);
const sampling = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 1 };
const turn = { ...sampling, append: undefined, maxTokens: 3, stop: new Int32Array(), limitMs: 0 };

/** Calls with arguments that the types forbid. */
type Call = (...args: unknown[]) => unknown;
const call = (name: keyof NativeEngine) => native[name].bind(native) as Call;
const load = addon.load as Call;
const draw = addon.draw as Call;

function detached(): Int32Array {
  const array = Int32Array.of(1, 2, 3);
  structuredClone(array.buffer, { transfer: [array.buffer] });
  return array;
}

const notTokens: [value: unknown, kind: string][] = [
  [Int8Array.of(1), "an Int8Array"],
  [Uint8Array.of(1), "a Uint8Array"],
  [Uint8ClampedArray.of(1), "a Uint8ClampedArray"],
  [Int16Array.of(1), "an Int16Array"],
  [Uint16Array.of(1), "a Uint16Array"],
  [Uint32Array.of(1), "a Uint32Array"],
  [Float32Array.of(1), "a Float32Array"],
  [Float64Array.of(1), "a Float64Array"],
  [BigInt64Array.of(1n), "a BigInt64Array"],
  [BigUint64Array.of(1n), "a BigUint64Array"],
  [Buffer.of(1), "a Uint8Array"],
  [new DataView(new ArrayBuffer(8)), "an object"],
  [new ArrayBuffer(8), "an object"],
  [[1, 2, 3], "an array"],
  [{ length: 3 }, "an object"],
  [new Proxy(Int32Array.of(1), {}), "an object"],
  [Object.create(Int32Array.prototype), "an object"],
  ["abc", "a string"],
  [7, "a number"],
  [7n, "a bigint"],
  [true, "a boolean"],
  [Symbol("s"), "a symbol"],
  [() => ids, "a function"],
  [null, "null"],
];

const takers: [what: string, name: string, call: (value: unknown) => unknown][] = [
  ["open", "the prompt", (value) => call("open")(value, 1)],
  ["score", "the tokens", (value) => call("score")(value, 1)],
  ["bytes", "the tokens", (value) => call("bytes")(value, false)],
  ["append", "append", (value) => call("generate")(1, { ...turn, append: value })],
  ["stop", "stop", (value) => call("generate")(1, { ...turn, stop: value })],
];

describe.each(takers)("tokens of %s", (_, name, take) => {
  it("are an Int32Array and nothing else", () => {
    for (const [value, kind] of notTokens) {
      expect(() => take(value), kind).toThrow(new TypeError(`${name} must be an Int32Array, not ${kind}`));
    }
  });

  it("are not in a buffer that has been moved away", () => {
    expect(() => take(detached())).toThrow(
      new TypeError(`${name} is empty: its buffer was detached (moved to another thread)`),
    );
  });

  it("exist in the vocabulary", () => {
    for (const token of [-1, tiny.vocabulary, 2 ** 31 - 1, -(2 ** 31)]) {
      expect(() => take(Int32Array.of(1, token))).toThrow(RangeError);
      expect(() => take(Int32Array.of(1, token))).toThrow(`token ${token} of `);
    }
  });
});

it("reads an Int32Array that shares its memory, or sees a part of it", () => {
  const shared = new Int32Array(new SharedArrayBuffer(12));
  shared.set([110, 111, 112]);
  expect(Buffer.from(native.bytes(shared, false)).toString()).toBe("nop");
  expect(Buffer.from(native.bytes(shared.subarray(1, 2), false)).toString()).toBe("o");
});

const wrong: [what: string, call: () => unknown, line: string][] = [
  [
    "logits of doubles",
    () => draw(new Float64Array(4), sampling, 1),
    "logits must be a Float32Array, not a Float64Array",
  ],
  ["no logits", () => draw(new Float32Array(), sampling, 1), "logits is empty"],
  ["a negative count", () => draw(new Float32Array(4), sampling, -1), "count is -1; it must be from 0 to 268435456"],
  ["no sampling", () => draw(new Float32Array(4), undefined, 1), "the sampling must be an object, not undefined"],
  [
    "a missing seed",
    () => draw(new Float32Array(4), { ...sampling, seed: undefined }, 1),
    "seed must be a number, not undefined",
  ],
  [
    "an unsafe seed",
    () => draw(new Float32Array(4), { ...sampling, seed: 2 ** 53 }, 1),
    "seed is 9007199254740992; it must be from 0 to 9007199254740991",
  ],
  [
    "half a topK",
    () => draw(new Float32Array(4), { ...sampling, topK: 0.5 }, 1),
    "topK is 0.5; it must be a whole number",
  ],
  [
    "a topP that is no number",
    () => draw(new Float32Array(4), { ...sampling, topP: Number.NaN }, 1),
    "topP is NaN; it must be from 0 to 1",
  ],
  [
    "a minP above 1",
    () => draw(new Float32Array(4), { ...sampling, minP: 1.5 }, 1),
    "minP is 1.5; it must be from 0 to 1",
  ],
  [
    "an infinite temperature",
    () => draw(new Float32Array(4), { ...sampling, temperature: Infinity }, 1),
    "temperature is Infinity; it must be from 0 to 3.4028234663852886e+38",
  ],
  ["no turn", () => call("generate")(1), "the turn must be an object, not undefined"],
  ["a function as turn", () => call("generate")(1, () => turn), "the turn must be an object, not a function"],
  ["a sequence that is no id", () => call("generate")("1", turn), "the sequence must be a number, not a string"],
  [
    "a negative sequence",
    () => call("generate")(-1, turn),
    "the sequence is -1; it must be from 0 to 9007199254740991",
  ],
  [
    "no tokens to make",
    () => call("generate")(1, { ...turn, maxTokens: 0 }),
    "maxTokens is 0; it must be from 1 to 2147483647",
  ],
  [
    "more tokens than an int counts",
    () => call("generate")(1, { ...turn, maxTokens: 2 ** 31 }),
    "maxTokens is 2147483648; it must be from 1 to 2147483647",
  ],
  [
    "a limit that is no time",
    () => call("generate")(1, { ...turn, limitMs: Number.NaN }),
    "limitMs is NaN; it must be from 0 to 2147483647",
  ],
  ["an empty prompt", () => call("open")(new Int32Array(), 1), "the prompt has 0 tokens; it must have from 1 to 255"],
  [
    "a prompt without room",
    () => call("open")(new Int32Array(256), 1),
    "the prompt has 256 tokens; it must have from 1 to 255",
  ],
  ["a group of none", () => call("open")(ids, 0), "count is 0; it must be from 1 to 1048576"],
  ["a group of all memory", () => call("open")(ids, 4e9), "count is 4000000000; it must be from 1 to 1048576"],
  [
    "a score of one token",
    () => call("score")(Int32Array.of(1), 1),
    "1 tokens cannot be scored; it takes from 2 to 256",
  ],
  [
    "a score of too many",
    () => call("score")(new Int32Array(257), 1),
    "257 tokens cannot be scored; it takes from 2 to 256",
  ],
  ["a score from 0", () => call("score")(ids, 0), "from is 0; it must be from 1 to 2"],
  ["a score from behind the end", () => call("score")(ids, 3), "from is 3; it must be from 1 to 2"],
  ["a cancelled NaN", () => call("cancel")(Number.NaN), "the turn is NaN; it must be from 0 to 9007199254740991"],
  ["a closed object", () => call("closeSequence")({}), "the sequence must be a number, not an object"],
  ["no thread", () => call("setThreads")(0), "threads is 0; it must be from 1 to 2147483647"],
  ["a text that is none", () => call("tokenize")(7, false), "the text must be a string, not a number"],
  ["an unsaid flag", () => call("tokenize")("a"), "special must be a boolean, not undefined"],
  ["an adapter that is null", () => call("useAdapter")(null), "the adapter's path must be a string, not null"],
  [
    "an adapter with a NUL",
    () => call("useAdapter")("a\0b"),
    "the adapter's path holds a NUL: it is not the name of a file",
  ],
  ["a sleep of sorts", () => call("sleep")("deep"), "weights must be a boolean, not a string"],
  ["no settings", () => load(), "the settings must be an object, not undefined"],
  ["a model that is no path", () => load({ ...settings, model: 1 }), "model must be a string, not a number"],
  [
    "an unknown number of sequences",
    () => load({ ...settings, sequences: undefined }),
    "sequences must be a number, not undefined",
  ],
  ["no sequences", () => load({ ...settings, sequences: 0 }), "sequences is 0; it must be from 1 to 268435456"],
  ["more lanes than sequences", () => load({ ...settings, lanes: 3 }), "lanes is 3; it must be from 1 to 2"],
  [
    "more threads than llama.cpp can have",
    () => load({ ...settings, threads: 513 }),
    "threads is 513; it must be from 1 to 512",
  ],
  [
    "fewer outputs than sequences",
    () => load({ ...settings, outputs: 2 }),
    "outputs is 2; it must be from 3 to 536870912",
  ],
  ["a ubatch beyond the batch", () => load({ ...settings, ubatch: 65 }), "ubatch is 65; it must be from 1 to 64"],
  [
    "more cells than an int counts",
    () => load({ ...settings, contextPerSequence: 2 ** 28, sequences: 8, outputs: 9 }),
    "8 sequences of 268435456 tokens are more than llama.cpp can count",
  ],
  [
    "a listener that cannot hear",
    () => (addon.onLog as Call)({}),
    "the listener must be a function or null, not an object",
  ],
];

describe("an argument that is not as the types say", () => {
  it.each(wrong)("is refused: %s", (_, call, line) => {
    expect(call).toThrow(line);
    expect(line).not.toContain("\n");
  });

  it("leaves the engine as it was", async () => {
    const play = async () => {
      const [sequence = 0] = native.open(prompt("as it was "), 1);
      const { tokens, error } = await native.generate(sequence, { ...turn, maxTokens: 20 }).promise;
      native.closeSequence(sequence);
      return { tokens: [...tokens], error };
    };
    const before = await play();
    for (const [, refused] of wrong) expect(refused).toThrow();
    expect(await play()).toEqual(before);
    expect(before.error).toBeNull();
  });
});

/** Runs a script in a process of its own, with the engine's compiled modules. */
const script = async (code: string) => {
  const addonModule = join(packageRoot, "dist/src/engine/addon.js");
  const program = `import(${JSON.stringify(addonModule)}).then(async ({ loadAddon, openAddon }) => { ${code} });`;
  return (await run(process.execPath, ["-e", program])).stdout.trim();
};

it("says that llama.cpp has to be bound before it is used", async () => {
  const output = await script(`
    const addon = loadAddon();
    for (const call of [() => addon.load(${JSON.stringify(settings)}), () => addon.devices()])
      try { call() } catch (error) { console.log(error.message) }`);
  const line = "llama.cpp is not bound yet; call bind() first";
  expect(output).toBe(`${line}\n${line}`);
});

it("lets the process end after calls on an engine that is closed", async () => {
  const output = await script(`
    const engine = await (await openAddon(false)).load(${JSON.stringify({ ...settings, model: newModel() })});
    await engine.close();
    for (const call of [() => engine.useAdapter(""), () => engine.sleep(false), () => engine.wake()])
      try { call() } catch (error) { console.log(error.message) }`);
  expect(output.split("\n")).toEqual(Array(3).fill("the engine was closed"));
});

it("reads a turn before it looks for the engine, which a getter may close", async () => {
  const output = await script(`
    const engine = await (await openAddon(false)).load(${JSON.stringify({ ...settings, model: newModel() })});
    const [sequence] = engine.open(Int32Array.of(1), 1);
    const turn = { ...${JSON.stringify(turn)}, append: undefined, stop: new Int32Array() };
    let closing;
    Object.defineProperty(turn, "limitMs", { get() { closing = engine.close(); return 0; } });
    try { engine.generate(sequence, turn) } catch (error) { console.log(error.message) }
    await closing;`);
  expect(output).toBe("the engine was closed");
});

it("outlives any argument", async () => {
  const fuzz = join(packageRoot, "test/engine/edge-fuzz.mjs");
  const { stdout } = await run(process.execPath, [fuzz, JSON.stringify({ ...settings, model: newModel() })]);
  const { calls, refused, settled, before, after } = JSON.parse(stdout);
  expect(calls).toBeGreaterThan(1000);
  expect(refused).toBeGreaterThan(calls / 4);
  expect(settled).toBeGreaterThan(0);
  expect(after).toEqual(before);
});
