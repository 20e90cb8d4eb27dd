/** What an engine asked of a card that computes nothing (test/null-card), between two moments. */
import { readFileSync } from "node:fs";
import type { EngineStats, LocalEngine } from "../../src/core/engine/engine.js";

export interface Counts {
  /** Passes over the weights, and those of prompts alone. */
  readonly passes: number;
  readonly promptPasses: number;
  readonly batches: number;
  /** Tokens that were sampled, and those of prompts and results that were evaluated. */
  readonly sampled: number;
  readonly prefilled: number;
  readonly paddingRows: number;
  readonly forks: number;
  readonly moves: number;
  /** Kernels that ran, alone or in a graph. */
  readonly kernels: number;
  /** Kernels that the host launched one by one. */
  readonly launches: number;
  readonly graphLaunches: number;
  /** Of the graphs' launches those that follow a capture: the host has gone through all kernels for them. */
  readonly graphCaptures: number;
  readonly synchronisations: number;
  /** Of what was called. */
  readonly synchronisationsBy: Readonly<Record<string, number>>;
  readonly copies: number;
  readonly bytesToHost: number;
  readonly bytesToCard: number;
  /** Bytes of weights and adapters that products read; of weights converted for a product also what is written and read again. */
  readonly weightBytes: number;
  /** Cells that the rows of attention go through, and those that are theirs. */
  readonly attendedCells: number;
  readonly ownedCells: number;
  /** Cells that attention reads once for all rows of a pass. */
  readonly cellsRead: number;
  /** Of the card, when it ended. */
  readonly memory: number;
}

type Counters = Readonly<Record<string, number>>;

/** The card writes its counters every second. */
const WRITTEN = 1300;
const wait = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function counters(): Promise<Counters> {
  await wait(WRITTEN);
  return JSON.parse(readFileSync(`${process.env.NULLCUDA_LOG}.${process.pid}`, "utf8")) as Counters;
}

/** @param layers of the model: each has one attention */
export async function countsOf(engine: LocalEngine, layers: number, work: () => Promise<unknown>): Promise<Counts> {
  const before = { card: await counters(), engine: engine.stats() };
  await work();
  const after = { card: await counters(), engine: engine.stats() };
  const card = (name: string) => (after.card[name] ?? 0) - (before.card[name] ?? 0);
  const sum = (pattern: RegExp) =>
    Object.keys(after.card).reduce((total, name) => total + (pattern.test(name) ? card(name) : 0), 0);
  const stat = (name: keyof EngineStats) => Number(after.engine[name]) - Number(before.engine[name]);
  const graphs = card("graph launches");
  return {
    passes: stat("passes"),
    promptPasses: stat("promptPasses"),
    batches: stat("batches"),
    sampled: stat("decoded"),
    prefilled: stat("prefilled"),
    paddingRows: stat("paddingRows"),
    forks: stat("forks"),
    moves: stat("moves"),
    kernels: card("launch direct") + card("kernels in launched graphs"),
    launches: card("launch direct"),
    graphLaunches: graphs,
    graphCaptures: card("graph captures"),
    synchronisations: card("syncs"),
    synchronisationsBy: Object.fromEntries(
      Object.keys(after.card)
        .filter((name) => name.startsWith("sync ") && card(name) > 0)
        .map((name) => [name.slice(5), card(name)]),
    ),
    copies: sum(/^copy .*calls$/),
    bytesToHost: sum(/^copy D2H .*bytes$/),
    bytesToCard: sum(/^copy H2D .*bytes$/),
    weightBytes: card("weights read bytes"),
    attendedCells: card("attended cells") / layers,
    ownedCells: stat("ownedCells"),
    cellsRead: card("cells read") / layers,
    memory: after.card.live ?? 0,
  };
}
