// Calls the addon with values of every kind and waits for whatever it began. A process of its own, started by
// edge.test.ts: if anything dies, it is this one. Prints counts and what one turn drew before and after, as JSON.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import fc from "fast-check";

const { openAddon } = await import(pathToFileURL(join(import.meta.dirname, "../../dist/src/engine/addon.js")).href);
const settings = JSON.parse(process.argv[2]);
const addon = await openAddon(false);
const engine = await addon.load(settings);

const turn = {
  temperature: 1,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 1,
  append: undefined,
  maxTokens: 3,
  stop: new Int32Array(),
  limitMs: 0,
};

async function play() {
  const [sequence] = engine.open(Int32Array.of(1, 2, 3), 1);
  const { tokens } = await engine.generate(sequence, { ...turn, maxTokens: 20 }).promise;
  engine.closeSequence(sequence);
  return [...tokens];
}

const number = fc.oneof(
  fc.constantFrom(0, -0, -1, 0.5, Number.NaN, Infinity, -Infinity, 1e-40, 1e-300, 1e300, Number.MIN_VALUE),
  fc.constantFrom(2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 2 ** 63, 2 ** 64, -(2 ** 31), -(2 ** 63)),
  fc.integer({ min: -4, max: 300 }),
);
const kinds = [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array];
const typed = fc.oneof(
  fc
    .tuple(fc.constantFrom(...kinds, Float32Array, Float64Array), fc.array(number, { maxLength: 300 }))
    .map(([Kind, values]) => Kind.from(values)),
  fc.array(fc.integer({ min: 0, max: 260 }), { minLength: 1, maxLength: 300 }).map((values) => Int32Array.from(values)),
  fc.array(fc.float(), { minLength: 1, maxLength: 300 }).map((values) => Float32Array.from(values)),
  fc.integer({ min: 0, max: 3 }).map((size) => new BigInt64Array(size)),
  fc.integer({ min: 0, max: 64 }).map((size) => new Int32Array(new SharedArrayBuffer(4 * size))),
  fc.integer({ min: 0, max: 64 }).map((size) => {
    const array = new Int32Array(size);
    structuredClone(array.buffer, { transfer: [array.buffer] });
    return array;
  }),
  // A view that has lost the end of its memory.
  fc.integer({ min: 0, max: 64 }).map((size) => {
    const buffer = new ArrayBuffer(4 * size, { maxByteLength: 1024 });
    const array = new Int32Array(buffer, 0, size);
    buffer.resize(0);
    return array;
  }),
);
const anything = fc.oneof(
  number,
  typed,
  fc.string(),
  fc.constantFrom("a\0b", "\ud800", "/no/such/file.gguf", settings.model, "."),
  fc.constantFrom(
    null,
    undefined,
    true,
    false,
    7n,
    Symbol("s"),
    () => 1,
    [],
    [1, 2],
    {},
    new Map(),
    new DataView(new ArrayBuffer(8)),
  ),
  fc.constantFrom(
    Object.create(Int32Array.prototype),
    Object.create(null),
    new Proxy(
      {},
      {
        get: () => {
          throw new Error("trap");
        },
      },
    ),
  ),
  fc.constant({
    valueOf: () => 3,
    toString: () => {
      throw new Error("no text");
    },
  }),
);

/** The good one with up to two properties replaced. */
const spoiled = (good) =>
  fc
    .array(fc.tuple(fc.constantFrom(...Object.keys(good)), anything), { maxLength: 2 })
    .map((changes) => ({ ...good, ...Object.fromEntries(changes) }));
const sequence = fc.oneof({ weight: 3, arbitrary: fc.constant("an open one") }, { weight: 1, arbitrary: anything });

/** Loads that would succeed could ask for all memory there is: here they fail, at the edge or at the file. */
const badLoad = spoiled({ ...settings, model: "/no/such/file.gguf" }).filter(({ model }) => model !== settings.model);
const sampling = spoiled({ temperature: 1, topK: 0, topP: 1, minP: 0, seed: 1 });
const draws = fc.oneof(
  fc.integer({ min: 0, max: 20 }),
  anything.filter((value) => !(typeof value === "number" && value > 1000)),
);
const members = fc.oneof(
  fc.integer({ min: 1, max: 5 }),
  anything.filter((value) => !(typeof value === "number" && value > 1000)),
);

const calls = fc.oneof(
  fc.tuple(fc.constant("open"), fc.tuple(anything, members)),
  fc.tuple(fc.constant("generate"), fc.tuple(sequence, fc.oneof(spoiled(turn), anything))),
  fc.tuple(fc.constant("score"), fc.tuple(anything, anything, anything)),
  fc.tuple(fc.constant("score"), fc.tuple(typed, fc.integer({ min: 0, max: 5 }), fc.integer({ min: -1, max: 300 }))),
  fc.tuple(fc.constant("tokenize"), fc.tuple(anything, anything)),
  fc.tuple(fc.constant("bytes"), fc.tuple(typed, fc.boolean())),
  fc.tuple(fc.constantFrom("cancel", "closeSequence", "setThreads", "useAdapter", "sleep"), fc.tuple(anything)),
  fc.tuple(fc.constantFrom("info", "memory", "stats", "adapter", "wake"), fc.array(anything, { maxLength: 2 })),
  fc.tuple(fc.constant("addon.draw"), fc.tuple(fc.oneof(typed, anything), fc.oneof(sampling, anything), draws)),
  fc.tuple(fc.constant("addon.load"), fc.tuple(fc.oneof(badLoad, anything))),
  fc.tuple(fc.constantFrom("addon.onLog", "addon.bind", "addon.llamaVersion", "addon.devices"), fc.tuple(anything)),
);

const counts = { calls: 0, refused: 0, settled: 0 };
const before = await play();
const [open] = engine.open(Int32Array.of(1, 2, 3), 1);
const property = fc.asyncProperty(fc.array(calls, { minLength: 1, maxLength: 20 }), async (sequenceOfCalls) => {
  const begun = [];
  for (const [name, args] of sequenceOfCalls) {
    counts.calls++;
    const [target, method] = name.startsWith("addon.") ? [addon, name.slice(6)] : [engine, name];
    try {
      const result = target[method](...args.map((value) => (value === "an open one" ? open : value)));
      const promise = result?.promise ?? result;
      if (promise instanceof Promise) begun.push(promise);
    } catch (error) {
      counts.refused++;
      // What a getter of the caller throws is passed on as it is.
      if (!(error instanceof Error) || error.message.includes("\n")) throw error;
    }
  }
  addon.onLog(null);
  counts.settled += (await Promise.allSettled(begun)).length;
  await engine.wake();
});
await fc.assert(property, { numRuns: 1500, seed: 1, endOnFailure: true });
await engine.useAdapter("");
const after = await play();
await engine.close();
process.stdout.write(JSON.stringify({ ...counts, before, after }));
