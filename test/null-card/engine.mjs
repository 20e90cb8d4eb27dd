// An engine's life on a null card: node engine.mjs '{"model":FILE,"adapter":FILE,"sequences":N,"context":N,"device":N,"steps":[…]}'
// A step is "generate", "adapter", "sleep", "wake" or "close", "full": from then on the card has no more than is used, or
// {"limit":BYTES}: from then on it has so many (0: all). Prints a
// line of JSON after each: the step, its error in hone's words, and the engine's memory on the card.
import { closeSync, openSync, writeSync } from "node:fs";

const { lookForCuda, takeDevice } = await import("../../dist/src/engine/device/device.js");
const { loadEngine } = await import("../../dist/src/engine/factory.js");
const wanted = JSON.parse(process.argv[2]);
const say = (line) => console.log(JSON.stringify(line));
const attempt = async (step, work) => {
  try {
    say({ step, ...(await work()) });
    return true;
  } catch (error) {
    say({ step, error: error.message, known: error.constructor.name });
    return false;
  }
};

takeDevice({ gpu: "cuda", device: wanted.device === undefined ? undefined : String(wanted.device) });
lookForCuda();
let engine;
const load = async () => {
  engine = await loadEngine({
    model: wanted.model,
    gpu: "cuda",
    threads: 1,
    sequences: wanted.sequences ?? 4,
    contextPerSequence: wanted.context ?? 256,
  });
  const { compute, sequences } = engine.info;
  return { compute, sequences };
};
if (!(await attempt("load", load))) process.exit(0);
const prompt = Int32Array.from({ length: 40 }, (_, index) => 5 + index);
const memory = () => {
  const [card] = engine.memory().devices;
  return { used: card && card.totalBytes - card.freeBytes };
};
const limit = (bytes) => {
  const file = openSync(process.env.NULLCUDA_SHM, "r+");
  const number = Buffer.alloc(8);
  number.writeBigUInt64LE(BigInt(bytes));
  writeSync(file, number, 0, 8, 0);
  closeSync(file);
};
const steps = {
  full: async () => {
    limit(memory().used);
    return memory();
  },
  generate: async () => {
    const open = Array.from({ length: engine.info.sequences }, () => engine.open(prompt));
    const turns = await Promise.all(
      open.map((sequence, seed) => sequence.generate({ maxTokens: 16, sampling: { seed }, stop: [] })),
    );
    for (const sequence of open) sequence.close();
    const { passes } = engine.stats();
    return { tokens: turns.reduce((sum, { tokens }) => sum + tokens.length, 0), passes, ...memory() };
  },
  adapter: async () => {
    await engine.useAdapter(wanted.adapter);
    return memory();
  },
  sleep: async () => {
    await engine.sleep(wanted.sleep);
    return memory();
  },
  wake: async () => {
    await engine.wake();
    return { sequences: engine.info.sequences, ...memory() };
  },
  close: async () => {
    await engine.close();
    return {};
  },
};
for (const step of wanted.steps) {
  if (typeof step === "string") await attempt(step, steps[step]);
  else limit(step.limit);
}
process.exit(0);
