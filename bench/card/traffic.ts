/** What is asked of an engine on a card that computes nothing: the same tokens and lengths in every run. */
import type { LocalEngine } from "../../src/core/engine/engine.js";

/** Of decoding alone: tokens of every sequence's prompt, and those that it samples. */
export const PROMPT = 200;
export const TOKENS = 64;

/** Whose graph plays. */
export const decoders = ["llama", "own"] as const;
export type Decoder = (typeof decoders)[number];

/** Numbers of a linear congruential generator (that of ANSI C's rand), from `low` to `high`. */
export function numbers(seed: number): (low: number, high: number) => number {
  let state = seed;
  return (low, high) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return low + (state % (high - low + 1));
  };
}

/** A turn: so many tokens are appended, then so many sampled. */
export interface Turn {
  readonly appended: number;
  readonly sampled: number;
}

/** Rollouts in groups that share a prompt, as agents play them. */
export interface Agents {
  readonly groups: number;
  readonly size: number;
  /** Tokens of a group's prompt. */
  readonly prompt: number;
  /** [rollout][turn]; the first turn appends nothing. */
  readonly rollouts: readonly (readonly Turn[])[];
}

const TURNS = 3;

/** Three turns of 20 to 80 tokens, with results of tools of 50 to 250 between them; groups of 8 with prompts of 600. */
export function agents(rollouts: number, sequences: number): Agents {
  const next = numbers(12_345);
  const size = Math.min(8, sequences);
  const turn = (_: unknown, index: number) => ({ appended: index === 0 ? 0 : next(50, 250), sampled: next(20, 80) });
  const groups = Math.ceil(rollouts / size);
  const all = Array.from({ length: groups * size }, () => Array.from({ length: TURNS }, turn));
  return { groups, size, prompt: 600, rollouts: all };
}

/**
 * Plays them to their ends.
 *
 * @param tokens for a prompt or a result of this length
 * @returns how many tokens were sampled
 */
export async function playAgents(
  engine: LocalEngine,
  { groups, size, prompt, rollouts }: Agents,
  tokens: (length: number, seed: number) => Int32Array,
): Promise<number> {
  const opened = Array.from({ length: groups }, (_, group) => engine.openGroup(tokens(prompt, group), size)).flat();
  let count = 0;
  await Promise.all(
    opened.map(async (sequence, index) => {
      for (const [turn, { appended, sampled }] of (rollouts[index] ?? []).entries()) {
        const seed = index * 100 + turn;
        const append = appended > 0 ? { append: tokens(appended, seed) } : {};
        count += (await sequence.generate({ ...append, maxTokens: sampled, sampling: { seed }, stop: [] })).tokens
          .length;
      }
      sequence.close();
    }),
  );
  return count;
}

/** What an engine does to which padding, shapes and buffers of KV mean nothing. */
export interface Ideal {
  readonly passes: number;
  /** Cells that the rows' tokens attend to, each its sequence's up to itself. */
  readonly ownedCells: number;
  /** Cells that they go through where all running sequences have one pool, which has nothing else. A group's prompt is in it once. */
  readonly pooledCells: number;
}

/**
 * Each pass has the next token of every running turn, and as many tokens of prompts and results as its rows leave. A group's
 * prompt is evaluated once.
 */
export function ideal({ size, prompt, rollouts }: Agents, sequences: number, rows: number): Ideal {
  const waiting = rollouts.map((turns, index) => ({
    turns,
    turn: 0,
    // The others of a group begin when its first has the prompt's last token but one, which each evaluates for itself.
    first: index - (index % size),
    pending: index % size === 0 ? prompt : 1,
    cells: index % size === 0 ? 0 : prompt - 1,
    left: turns[0]?.sampled ?? 0,
    index,
  }));
  const shared = new Set<number>();
  const running: typeof waiting = [];
  const done = { passes: 0, ownedCells: 0, pooledCells: 0 };
  while (waiting.length > 0 || running.length > 0) {
    while (running.length < sequences && waiting.length > 0) running.push(waiting.shift() as (typeof waiting)[number]);
    done.passes++;
    const ready = running.filter(({ first, index }) => index === first || shared.has(first));
    let room = rows - ready.length;
    let taken = 0;
    for (const one of ready) {
      const pieces = Math.max(0, Math.min(one.pending - 1, room));
      room -= pieces;
      one.pending -= pieces;
      const own = pieces + (one.pending > 1 ? 0 : 1);
      taken += own;
      done.ownedCells += own * one.cells + (own * (own + 1)) / 2;
      one.cells += own;
    }
    const prompts = new Map<number, number>();
    for (const { first, cells } of ready)
      prompts.set(first, Math.max(prompts.get(first) ?? 0, Math.min(cells, prompt)));
    const apart = ready.reduce((sum, { cells }) => sum + Math.max(0, cells - prompt), 0);
    done.pooledCells += taken * [...prompts.values()].reduce((sum, cells) => sum + cells, apart);
    for (const one of ready) {
      if (one.pending > 1) continue;
      if (one.index === one.first) shared.add(one.first);
      one.pending = 1;
      one.left--;
      if (one.left > 0) continue;
      one.turn++;
      const turn = one.turns[one.turn];
      if (turn) {
        // Of the last turn's last token too.
        one.pending = 1 + turn.appended;
        one.left = turn.sampled;
      } else running.splice(running.indexOf(one), 1);
    }
  }
  return done;
}

/** Passes of prompts and results where each is evaluated alone, but for its last token. */
export function promptPasses({ groups, prompt, rollouts }: Agents, rows: number): number {
  const results = rollouts.flat().reduce((sum, { appended }) => sum + Math.ceil(appended / rows), 0);
  return groups * Math.ceil((prompt - 1) / rows) + results;
}
