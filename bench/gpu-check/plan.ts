/** The sections of `yarn gpu-check`, in the order of what matters most. */
import { contexts } from "./contexts.js";
import type { Planned } from "./hour.js";
import { doctor, parity, prepare } from "./numbers.js";
import { speed } from "./speed.js";
import { kill, memory, step } from "./steps.js";
import { byHone, byTrl, byUnsloth } from "./task.js";
import { heads, peft, unsloth } from "./updates.js";

/** Minutes of all sections together, where nobody says otherwise. */
export const MINUTES = 60;

/** What a section does not take of its minutes is left to those behind it. */
export const plan: readonly Planned[] = [
  { section: prepare, least: 0.2, most: 5 },
  { section: parity, least: 1, most: 4 },
  ...[8, 64, 256].map((count) => ({ section: speed("0.5b", [count], `speed-${count}`), least: 1, most: 6 })),
  // The first update on a card compiles the learner's kernels: three ways of computing rows, two of them tried at least.
  { section: step(2, 4), least: 2, most: 6 },
  { section: step(8, 8), least: 1, most: 4 },
  { section: step(32, 8), least: 2, most: 5 },
  { section: peft, least: 1, most: 4 },
  { section: unsloth, least: 1, most: 5 },
  { section: memory, least: 2, most: 5 },
  { section: heads, least: 2, most: 5 },
  { section: byHone, least: 3, most: 8 },
  { section: byTrl, least: 2, most: 6 },
  { section: byUnsloth, least: 2, most: 6 },
  { section: doctor, least: 2, most: 7 },
  { section: kill, least: 1, most: 4 },
  { section: speed("1.5b", [8, 64], "speed-1.5b"), least: 2, most: 8 },
  { section: speed("7b-8", [8, 64], "speed-7b-8"), least: 2, most: 8 },
  { section: contexts, least: 4, most: 8 },
];
