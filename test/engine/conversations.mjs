// Conversations of the engine with the test models, for huggingface.full.test.ts, in a process of its own: a process loads
// one CPU library of llama.cpp. stdin: the compiled engine, cases, and on request the folder of binaries to
// take instead of node-llama-cpp's own. Prints what was played, and which library did it, as JSON.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import Module, { register } from "node:module";
import { join } from "node:path";
import { text } from "node:stream/consumers";

const { door, binaries, cases, engine: settings } = JSON.parse(await text(process.stdin));

/** The package of binaries is found by its name: here the name stands for `binaries`, and the binding takes no library from elsewhere. */
if (binaries) {
  const load = Module._load;
  Module._load = (request, ...rest) => {
    const loaded = load(request, ...rest);
    if (!request.endsWith("llama-addon.node")) return loaded;
    const [platform] = readdirSync(binaries.folder);
    const value = (from) => loaded.loadBackends(from && join(binaries.folder, platform));
    return Object.create(loaded, { loadBackends: { value } });
  };
  const asModule = (code) => `data:text/javascript,${encodeURIComponent(code)}`;
  const { folder, version, module } = binaries;
  const instead = asModule(
    `export const getBinsDir = () => (${JSON.stringify({ binsDir: folder, packageVersion: version })});`,
  );
  register(
    asModule(`export const resolve = (name, context, next) => name === ${JSON.stringify(module)}
      ? { url: ${JSON.stringify(instead)}, shortCircuit: true } : next(name, context);`),
  );
}

const { loadEngine } = await import(door);

/** Turns with foreign tokens before each, as a rollout has them. */
async function converse(engine, { prompt, turns, seed }) {
  const sequence = engine.open(Int32Array.from(prompt));
  const tokens = [...prompt];
  const sampled = [];
  for (const { append, maxTokens } of turns) {
    const given = Int32Array.from(append);
    const turn = await sequence.generate({ append: given, maxTokens, sampling: { seed }, stop: [] });
    tokens.push(...append);
    turn.tokens.forEach((token, i) => {
      sampled.push({ at: tokens.length, logprob: turn.logprobs[i] });
      tokens.push(token);
    });
  }
  sequence.close();
  return { tokens, sampled };
}

const played = [];
let engine;
for (const { model, adapter, alone, batched } of cases) {
  if (engine?.info.model !== model) {
    await engine?.close();
    engine = await loadEngine({ model, threads: 1, contextPerSequence: 256, ...settings });
  }
  await engine.useAdapter(adapter);
  const one = await converse(engine, alone);
  const several = await Promise.all(batched.map((conversation) => converse(engine, conversation)));
  const score = async () => [...(await engine.score(Int32Array.from(one.tokens)))];
  const scored = await score();
  if (adapter) await engine.useAdapter(null);
  played.push({ alone: one, batched: several, scored, scoredWithout: adapter ? await score() : scored });
}
await engine?.close();

const maps = "/proc/self/maps";
const mapped = existsSync(maps) ? readFileSync(maps, "utf8").match(/libggml-cpu[^/\s]*(?=\s)/g) : [];
process.stdout.write(JSON.stringify({ libraries: [...new Set(mapped)], played }));
