import { describe, expect, it, vi } from "vitest";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import { EngineOutOfMemory, engineError } from "../../src/core/engine/errors.js";
import { HoneError } from "../../src/core/util/errors.js";
import { fitting } from "../../src/engine/fitting.js";
import { loadFitting } from "../../src/engine/load-fitting.js";

const loaded = vi.hoisted(() => [] as LocalEngineOptions[]);
const room = vi.hoisted(() => ({ for: 0 }));

vi.mock("../../src/engine/factory.js", async (load) => {
  const real = await load<typeof import("../../src/engine/factory.js")>();
  const loadEngine = async (options: LocalEngineOptions): Promise<LocalEngine> => {
    loaded.push(options);
    if (options.sequences > room.for) throw new EngineOutOfMemory("full");
    return { sequences: options.sequences } as unknown as LocalEngine;
  };
  return { ...real, loadEngine };
});

/** Memory for so many sequences. */
const roomFor = (most: number, tried: number[] = []) => ({
  tried,
  attempt: async (sequences: number) => {
    tried.push(sequences);
    if (sequences > most) throw new EngineOutOfMemory("full");
    return `with ${sequences}`;
  },
});

describe("an engine without memory for all its sequences", () => {
  it("is not tried with fewer where the weights alone do not fit", async () => {
    const tried: number[] = [];
    const attempt = async (sequences: number) => {
      tried.push(sequences);
      throw engineError(Object.assign(new Error("/m.gguf cannot be loaded: out of memory"), { code: "memory" }));
    };
    await expect(fitting(16, attempt, () => undefined)).rejects.toThrow("take a smaller model file");
    expect(tried).toEqual([16]);
  });

  it("gets half as many, and half again, and says each time what holds from now on", async () => {
    const { tried, attempt } = roomFor(3);
    const said: string[] = [];
    expect(await fitting(15, attempt, (line) => said.push(line))).toEqual({ result: "with 3", sequences: 3 });
    expect(tried).toEqual([15, 7, 3]);
    expect(said).toEqual([
      "the engine did not fit into memory; from now on --concurrency 7 instead of 15",
      "the engine did not fit into memory; from now on --concurrency 3 instead of 7",
    ]);
  });

  it("ends with one, or with one for each lane", async () => {
    const none = roomFor(0);
    await expect(fitting(4, none.attempt, () => undefined)).rejects.toThrow(EngineOutOfMemory);
    expect(none.tried).toEqual([4, 2, 1]);
    const lanes = roomFor(0);
    await expect(fitting(8, lanes.attempt, () => undefined, 3)).rejects.toThrow(EngineOutOfMemory);
    expect(lanes.tried).toEqual([8, 4, 3]);
  });

  it("is not tried again after another failure", async () => {
    let tries = 0;
    const broken = async () => {
      tries++;
      throw new HoneError("no such file");
    };
    await expect(fitting(8, broken, () => undefined)).rejects.toThrow("no such file");
    expect(tries).toBe(1);
  });

  it("is loaded with what there is room for, and its workers join that one", async () => {
    room.for = 2;
    const said: string[] = [];
    const asked = { model: "m.gguf", sequences: 8, contextPerSequence: 64, threads: 2 };
    const { engine, options } = await loadFitting(asked, (line) => said.push(line));
    expect(engine).toEqual({ sequences: 2 });
    expect(options).toEqual({ ...asked, sequences: 2 });
    expect(loaded.map(({ sequences }) => sequences)).toEqual([8, 4, 2]);
    expect(said).toHaveLength(2);
  });
});
