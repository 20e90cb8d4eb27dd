/** The steps of a run that hone makes: its scenarios, its rewards, and what is told of a beginning. */

import type { StepRow } from "../core/run/records.js";
import { pushesOther } from "../judge/reward/registry.js";
import { trainSteps } from "./loop.js";
import type { Opened } from "./opened.js";
import { ScenarioSampler } from "./sampler.js";
import { telling } from "./telling.js";

export async function* madeSteps({ plan, parts, loading, ...opened }: Opened): AsyncGenerator<StepRow, void> {
  const { settings, task, given } = plan;
  const { run } = parts;
  const { spreadFloor, judgeBeside: _, close: __, ...rewards } = await opened.rewards();
  const unsolved = run.store.steps().every(({ metrics }) => !metrics?.success);
  const train = task.scenarios.filter(({ split }) => split === "train").map(({ id }) => id);
  const chosen = settings.difficulty !== undefined || settings.rest > 0;
  const { steps, groupsPerStep, seed } = settings;
  const making = {
    ...parts,
    ...rewards,
    guards: opened.guards({ train, groupsPerStep, seed, chosen }),
    signal: opened.events.signal,
    settings: { ...parts.settings, advantages: { ...parts.settings.advantages, spreadFloor } },
    view: await telling(parts.view, { given, settings, task: task.task, run: run.name, unsolved }),
  };
  const { step } = run.store.lastStep();
  opened.events.onStart?.({ folder: run.folder, step, steps, judged: pushesOther(settings) });
  const all = new ScenarioSampler(task.scenarios, settings);
  const scenarios = chosen
    ? await (await import("./difficulty.js")).withinDifficulty(making, all, settings, loading)
    : all;
  yield* trainSteps({ ...making, scenarios });
}
