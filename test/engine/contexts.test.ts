/** Lanes, threads and passes of an engine: the defaults, and what is refused. */
import { expect, it } from "vitest";
import { contextsOf, lanesOf, pooledByDefault } from "../../src/engine/contexts.js";
import { loadEngine } from "../../src/engine/factory.js";
import { usableCores } from "../../src/engine/threads.js";
import { newModel } from "./support.js";

const [small, large] = [8e6, 1e9];
const onGpu = (asked: Partial<Parameters<typeof contextsOf>[0]>) =>
  contextsOf({ sequences: 31, ...asked }, large, "cuda");

it("a lane has four sequences at least, unless somebody says how many lanes there are", () => {
  expect([1, 7, 8, 16, 60, 64].map((sequences) => lanesOf(small, false, 15, sequences))).toEqual([1, 1, 2, 4, 15, 15]);
  expect([lanesOf(large, false, 15, 16), lanesOf(small, "vulkan", 15, 64)]).toEqual([1, 1]);
  expect(onGpu({ sequences: 3, lanes: 3 }).lanes).toBe(3);
});

it("an NVIDIA card has two lanes from 32 sequences on, unless their weights would be read too slowly", () => {
  const lanes = (gpu: "cuda" | "vulkan", bytes: number) => [31, 32, 256].map((n) => lanesOf(bytes, gpu, 1, n));
  expect([lanes("cuda", large), lanes("cuda", 15e9), lanes("vulkan", large)]).toEqual([
    [1, 2, 2],
    [1, 1, 1],
    [1, 1, 1],
  ]);
  expect(contextsOf({ sequences: 64 }, large, "cuda")).toMatchObject({ lanes: 2, threads: 2 });
  // Each lane needs a thread: a given number is obeyed.
  expect(contextsOf({ sequences: 64, threads: 1 }, large, "cuda")).toMatchObject({ lanes: 1, threads: 1 });
});

it("a GPU's engine has one thread a lane, however many cores there are", () => {
  expect(onGpu({})).toEqual({ lanes: 1, threads: 1, batch: 2048, ubatch: 512 });
  expect(onGpu({ lanes: 2 })).toMatchObject({ lanes: 2, threads: 2 });
  const more = usableCores() + 2;
  expect(onGpu({ lanes: more })).toMatchObject({ lanes: more, threads: more });
  expect(onGpu({ lanes: more, threads: more })).toMatchObject({ lanes: more, threads: more });
  expect(onGpu({ threads: 1 }).threads).toBe(1);
  expect(onGpu({ threads: more }).threads).toBe(usableCores());
});

it("what is asked for is obeyed", () => {
  expect(onGpu({ ubatch: 2048 }).ubatch).toBe(2048);
  expect(onGpu({ batch: 64 })).toMatchObject({ batch: 64, ubatch: 64 });
});

it("threads beyond the cores are left out, with a line that says so", async () => {
  const cores = usableCores();
  const load = async (threads: number) => {
    const lines: string[] = [];
    const options = { model: newModel(), gpu: false, threads, sequences: 1, contextPerSequence: 64 } as const;
    const engine = await loadEngine(options, (line) => lines.push(line));
    const { threads: has } = engine.info;
    await engine.close();
    return { lines, has };
  };
  expect(await load(cores)).toEqual({ lines: [], has: cores });
  const line = `--threads ${cores + 1}: the engine has ${cores}, as many as the cores that hone may use`;
  expect(await load(cores + 1)).toEqual({ lines: [line], has: cores });
});

it("a pool is a GPU's choice while the mask over all cells is small, and a pass has room for prompts", () => {
  expect(pooledByDefault({ sequences: 11, contextPerSequence: 8192 })).toBe(true);
  expect(pooledByDefault({ sequences: 12, contextPerSequence: 8192 })).toBe(false);
  expect(pooledByDefault({ sequences: 32, contextPerSequence: 1024 })).toBe(true);
  expect(pooledByDefault({ sequences: 64, contextPerSequence: 1024 })).toBe(false);
  expect(pooledByDefault({ sequences: 64, contextPerSequence: 1024 }, 2)).toBe(true);
  expect(pooledByDefault({ sequences: 32, contextPerSequence: 1024 }, 1, 63)).toBe(false);
});
