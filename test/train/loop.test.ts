import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LearnerRefused } from "../../src/core/learn/errors.js";
import type { StepMetrics } from "../../src/core/learn/types.js";
import type { RewardGroup } from "../../src/core/reward/reward.js";
import { verifyCheckpoint } from "../../src/core/run/checkpoints.js";
import { bestOf, Run } from "../../src/core/run/run.js";
import type { Demand, Guard } from "../../src/core/train/guard.js";
import type { Updater } from "../../src/core/train/parts.js";
import { HoneError, UsageError } from "../../src/core/util/errors.js";
import { randomReward } from "../../src/judge/reward/control.js";
import { trainSteps } from "../../src/trainer/loop.js";
import { summarise } from "../../src/trainer/summary.js";
import { learnerUpdater } from "../../src/trainer/updater.js";
import { readBatch } from "../learn/read-batch.js";
import {
  FakeLearner,
  type FakeParts,
  openFake,
  partsOf,
  shape,
  silent,
  stepSettings,
  train,
  trajectoryOf,
} from "./support/fakes.js";

let base: string;
let folder: string;
const open: Run[] = [];

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "hone-loop-"));
  folder = join(base, "run");
});
afterEach(() => {
  for (const run of open.splice(0)) run.close();
  rmSync(base, { recursive: true });
});

async function opened(name = "run", fork?: string): Promise<Run> {
  const run = await openFake(join(base, name), fork);
  open.push(run);
  return run;
}

function close(run: Run): void {
  open.splice(open.indexOf(run), 1);
  run.close();
}

/** A learner whose n-th update answers as told. */
const learnerThat = (answers: Partial<StepMetrics>[]): NonNullable<FakeParts["learner"]> => {
  return (from) => new FakeLearner(from, undefined, () => answers.shift() ?? {});
};

describe("the training loop", () => {
  it("ends where the reward is the same whatever is played, and names the command that looks at the task", async () => {
    const run = await opened();
    const parts = partsOf(run, { settings: { steps: 12, validateEvery: 0 } });
    parts.policy.reward = 0.5;
    await expect(train(parts)).rejects.toThrow(
      /^every rollout of the last 10 steps earned 0\.5: the reward does not depend on the answer\.\nRun `.*check mine\.ts`/,
    );
    expect(run.store.lastStep().step).toBe(10);
  });

  it("takes its steps, validates at the start, on the way and at the end, and keeps the latest and the best", async () => {
    const run = await opened();
    const given = await train(partsOf(run));
    expect(given).toEqual(run.store.steps().filter(({ step }) => step > 0));
    expect(given).toHaveLength(3);
    expect(run.store.validations().map(({ step }) => step)).toEqual([0, 2, 3]);
    // 2 is what step 4 would be compared with.
    const kept = new Set([2, 3, bestOf(run.store.validations())?.checkpoint].filter((step) => step !== null));
    expect(new Set(run.checkpoints.list())).toEqual(kept);
    const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line).step)).toEqual([1, 2, 3]);
    const first = JSON.parse(lines[0] as string);
    expect(first).toMatchObject({ rollouts: 6, groups: 2, failures: 0, learning_rate: 0.05, skipped: null });
    expect(first.seconds.total).toBeGreaterThanOrEqual(first.seconds.rollouts);
  });

  it("trains on rollouts of the adapter it has just made", async () => {
    const run = await opened();
    const parts = partsOf(run, { settings: { keep: 3 } });
    await train(parts);
    const adapters = run.store.steps().map(({ adapter }) => adapter);
    for (const step of [1, 2, 3]) {
      const players = new Set(run.store.rollouts("train", step).map(({ player }) => player.adapter));
      expect([...players]).toEqual([adapters[step - 1]]);
    }
  });

  it("goes on with more steps, and does nothing when all are done", async () => {
    const run = await opened();
    await train(partsOf(run));
    const again = partsOf(run);
    expect(await train(again)).toEqual([]);
    expect(again.policy.played).toEqual([]);
    const more = partsOf(run, { settings: { steps: 4 } });
    await train(more);
    expect(run.store.lastStep().step).toBe(4);
  });

  it("lets groups without spread feel the pull of --kl, and leaves them out without it", async () => {
    const rewardGroup: RewardGroup = async (group) => ({ kind: "rewarded", rewards: group.map(() => 1) });
    const step = async (name: string, kl: number) => {
      const run = await opened(name);
      await train(partsOf(run, { change: { rewardGroup }, settings: { steps: 1, kl } }));
      const batch = existsSync(run.batchFile) ? readBatch(run.batchFile) : null;
      return {
        metrics: run.store.lastStep().metrics,
        groups: batch?.tensor("groups"),
        checkpoints: run.checkpoints.list(),
      };
    };
    const pulled = await step("pulled", 0.1);
    expect(pulled).toMatchObject({ groups: [0, 0, 0, 1, 1, 1], checkpoints: [1] });
    expect(pulled.metrics).toMatchObject({ skipped: null, groups_trainable: 0, updates: 1 });
    const left = await step("left", 0);
    expect(left).toMatchObject({ groups: undefined, checkpoints: [] });
    expect(left.metrics).toMatchObject({ skipped: "no_spread", updates: 0 });
  });

  it("left early stands after its last whole step, and goes on from there", async () => {
    const run = await opened();
    for await (const { step } of trainSteps(partsOf(run))) if (step === 2) break;
    expect(run.store.lastStep().step).toBe(2);
    expect((await train(partsOf(run))).map(({ step }) => step)).toEqual([3]);
  });

  it("stopped by the user keeps what is finished and goes on from there", async () => {
    const run = await opened();
    const stop = new AbortController();
    let seen = 0;
    const view = { ...silent, rollout: () => ++seen === 10 && stop.abort() } as typeof silent;
    const parts = partsOf(run, { change: { view, signal: stop.signal } });
    await expect(train(parts)).rejects.toThrow("interrupted in step 2");
    expect(run.store.lastStep().step).toBe(1);
    close(run);

    const resumed = partsOf(await opened());
    await train(resumed);
    const all = [...parts.policy.played, ...resumed.policy.played];
    expect(new Set(all).size).toBe(all.length);
    const whole = partsOf(await opened("whole"));
    await train(whole);
    expect(all).toEqual(whole.policy.played);
  });

  it("whose folder is moved away says so, and goes on when it is back", async () => {
    const run = await opened();
    const away = join(base, "away");
    const moving = (name: string) => {
      if (name === "learner begins" && run.store.lastStep().step === 1) renameSync(folder, away);
    };
    await expect(train(partsOf(run, { tick: moving }))).rejects.toThrow(
      `${folder} was removed or moved while it was trained; bring it back to go on`,
    );
    close(run);
    renameSync(away, folder);
    expect(await train(partsOf(await opened()))).toHaveLength(2);
  });

  it("stopped while the learner loads does not wait for it", async () => {
    const run = await opened();
    const stop = new AbortController();
    const updater: Updater = {
      prepare: () => new Promise(() => undefined),
      update: () => Promise.reject(new Error("it was not loaded")),
      close: () => Promise.resolve(),
    };
    const view = {
      ...silent,
      phase: (_: number, phase: string) => phase === "update" && setImmediate(() => stop.abort()),
    };
    await expect(
      train(partsOf(run, { change: { updater, view: view as typeof silent, signal: stop.signal } })),
    ).rejects.toThrow("interrupted in step 1");
  });

  it("does not train on rollouts of another adapter", async () => {
    const run = await opened();
    const stray = run.store;
    const whole = partsOf(run, { settings: { steps: 1 } });
    await train(whole);
    // As if another update had been committed after step 2's rollouts were played.
    const [old] = stray.rollouts("train", 1);
    if (!old) throw new Error("nothing was played");
    stray.saveRollout("train", 2, { ...old, player: { ...old.player, adapter: "another" } });
    await train(partsOf(run, { settings: { steps: 2 } }));
    expect(stray.rollouts("train", 2).map(({ player }) => player.adapter)).not.toContain("another");
    expect(stray.rollouts("train", 2)).toHaveLength(6);
  });

  it("validates nothing where no scenarios are to be, and the best checkpoint is unknown", async () => {
    const run = await opened();
    await train(partsOf(run, { settings: { validateN: 0 } }));
    expect(run.store.validations()).toEqual([]);
    const { best, adapter, latest } = summarise(run, 1);
    expect([best, adapter, latest]).toEqual([null, null, run.checkpoints.adapterOf(3)]);
  });

  it("validates the start when one step is done, also when it was stopped in between", async () => {
    const run = await opened();
    const stop = new AbortController();
    let phases: string[] = [];
    const note = (step: number, phase: string) => void phases.push(`${phase} ${step}`);
    const view = { ...silent, phase: note, step: () => stop.abort() };
    await expect(train(partsOf(run, { change: { view, signal: stop.signal } }))).rejects.toThrow(
      "interrupted in the validation of the start",
    );
    expect(phases).toEqual(["rollouts 1", "update 1", "validation 0"]);
    expect(run.store.validations()).toEqual([]);

    phases = [];
    await train(partsOf(run, { change: { view: { ...silent, phase: note } }, settings: { steps: 2 } }));
    expect(phases).toEqual(["validation 0", "rollouts 2", "update 2", "validation 2"]);
    expect(run.store.rollouts("validation", 0).map(({ player }) => player.adapter)).toEqual([null, null]);
  });

  it("plays while the learner loads, and stops with its reason when it refuses", async () => {
    const run = await opened();
    let refuse: (error: Error) => void = () => undefined;
    const loading = new Promise<FakeLearner>((_, reject) => {
      refuse = reject;
    });
    const parts = partsOf(run);
    const updater = learnerUpdater({
      lifetime: "run",
      step: stepSettings,
      start: () => loading,
      log: () => undefined,
    });
    const view = {
      ...silent,
      rollout: () => parts.policy.played.length === 4 && refuse(new LearnerRefused("not this model")),
    } as typeof silent;
    await expect(train({ ...parts, updater, view })).rejects.toThrow("not this model");
    expect(run.store.lastStep().step).toBe(0);
    expect(parts.policy.played.length).toBeLessThan(6);
    expect(run.store.rollouts("train", 1).length).toBeGreaterThan(0);
  });

  it("skips an update that is not finite, counts it, and goes on from the weights before", async () => {
    const run = await opened();
    const broken = { applied: false, skipped: "gradient", gradNorm: null } as const;
    await train(partsOf(run, { learner: learnerThat([{}, broken]), settings: { keep: 9 } }));
    const [, one, two, three] = run.store.steps();
    expect(two).toMatchObject({ checkpoint: 1, adapter: one?.adapter, metrics: { skipped: "gradient" } });
    expect(three?.checkpoint).toBe(3);
    // Nor is there a folder that was begun for it.
    expect(readdirSync(join(folder, "checkpoints")).sort()).toEqual(["0001", "0003"]);
  });

  it("stops when updates are never finite", async () => {
    const run = await opened();
    const broken = { applied: false, skipped: "loss" } as const;
    const parts = partsOf(run, { learner: learnerThat([broken, broken, broken]), settings: { steps: 9 } });
    await expect(train(parts)).rejects.toThrow("the loss was not a finite number in 3 steps in a row");
    expect(run.store.lastStep()).toMatchObject({ step: 3, checkpoint: null });
  });

  it("stops when nothing can be learnt, and says why", async () => {
    const run = await opened();
    const parts = partsOf(run, { settings: { steps: 50, validateEvery: 0 } });
    parts.policy.reward = 0;
    await expect(train(parts)).rejects.toThrow("nothing was learnt in 10 steps in a row");
    expect(run.store.lastStep()).toMatchObject({ step: 10, checkpoint: null, metrics: { skipped: "no_spread" } });
  });

  it("stops before it commits a step whose learner is not the model that played", async () => {
    const run = await opened();
    const apart = { importance: { truncated: 0, masked: 0, ess: 0.3 } };
    await expect(train(partsOf(run, { learner: learnerThat([{}, apart]) }))).rejects.toThrow(
      "engine and learner disagree",
    );
    expect(run.store.lastStep().step).toBe(1);
  });

  it("asks guards before the learner, and once the step is committed, which they may take back", async () => {
    const refusing = (moment: "beforeAsking" | "afterCommit", demand: Demand): Guard => ({
      name: moment,
      sees: "",
      [moment]: async () => ({ demand, error: new HoneError(`looked: ${moment}`) }),
    });
    const guarded = async (guard: Guard, learner?: NonNullable<FakeParts["learner"]>) => {
      const run = await opened();
      const parts = partsOf(run, { settings: { steps: 1 }, change: { guards: [guard] }, ...(learner && { learner }) });
      await expect(train(parts)).rejects.toThrow(`looked: ${guard.name}`);
      const { step } = run.store.lastStep();
      close(run);
      return { step, played: parts.policy.played.length };
    };
    const unasked = () => ({ step: () => expect.unreachable(), close: async () => undefined });
    expect(await guarded(refusing("beforeAsking", "refuse"), unasked)).toMatchObject({ step: 0 });
    expect(await guarded(refusing("afterCommit", "take the commit back"))).toEqual({ step: 0, played: 0 });
    expect(await guarded(refusing("afterCommit", "refuse"))).toEqual({ step: 1, played: 0 });
  });

  it("keeps what a judge is at when a guard refuses the rollouts: its answers are paid for", async () => {
    const run = await opened();
    const asked: (string | undefined)[] = [];
    const answered: typeof asked = [];
    const rewardGroup: RewardGroup = async ([first]) => {
      asked.push(first?.scenario.id);
      await new Promise((resolve) => setTimeout(resolve, 50));
      answered.push(first?.scenario.id);
      return { kind: "no_verdict", reason: "late" };
    };
    const error = new HoneError("not what was played");
    const guard: Guard = { name: "one", sees: "", afterPlay: () => ({ demand: "drop these rollouts", error }) };
    await expect(train(partsOf(run, { change: { guards: [guard], rewardGroup } }))).rejects.toThrow(error);
    expect(asked).toHaveLength(2);
    expect(answered).toEqual(asked);
    expect(run.store.rollouts("train", 1)).toEqual([]);
  });

  it("counts a group whose rollouts all failed as one that could not be compared", async () => {
    const run = await opened();
    const parts = partsOf(run, { settings: { steps: 1, validateEvery: 0 } });
    const play = parts.policy.play.bind(parts.policy);
    parts.policy.play = async (request) => {
      const { groups, ...played } = await play(request);
      return { ...played, groups: [[], ...groups.slice(1)], failures: [{ id: "s0/0", error: "it broke" }] };
    };
    await train(parts);
    const counted = { groups: 2, groups_flat: 0, groups_broken_off: 1, failures: 1 };
    expect(run.store.lastStep().metrics).toMatchObject(counted);
    expect(run.store.validations().map(({ result }) => result.failures)).toEqual([1, 1]);
  });

  it.each([
    { moment: "afterCommit", staleness: 0 },
    { moment: "afterWaking", staleness: 0 },
    { moment: "afterWaking", staleness: 1 },
  ] as const)("goes on after a step that was taken back: $moment, $staleness ahead", async ({ moment, staleness }) => {
    const changed = { staleness, apart: staleness > 0, keep: 1 };
    let faults = 1;
    const once: Guard = {
      name: "once",
      sees: "",
      [moment]: async () => {
        const { step } = run.store.unsettledStep() ?? {};
        if (step !== 2 || faults-- <= 0) return undefined;
        return { demand: "take the commit back", error: new HoneError("not that one") };
      },
    };
    const run = await opened();
    const parts = partsOf(run, { settings: changed, change: { guards: [once] } });
    await expect(train(parts)).rejects.toThrow("not that one");
    expect(run.store.lastStep().step).toBe(1);
    expect((await train(parts)).map(({ step }) => step)).toEqual([2, 3]);

    const whole = await opened("whole");
    await train(partsOf(whole, { settings: changed }));
    const madeBy = (run: Run) => run.store.steps().map(({ timing: _, ...row }) => row);
    expect(madeBy(run)).toEqual(madeBy(whole));
    expect(run.checkpoints.list()).toEqual(whole.checkpoints.list());
    expect(run.checkpoints.list()).toContain(3);
    for (const step of run.checkpoints.list()) await verifyCheckpoint(run.checkpoints.pathOf(step));
  });

  it("under random rewards trains on coins and reports the task's own reward", async () => {
    const run = await opened();
    const parts = partsOf(run, { change: { rewardGroup: randomReward(3) }, settings: { steps: 1 } });
    parts.policy.reward = 0;
    await train(parts);
    expect(run.store.lastStep().metrics).toMatchObject({ reward: 0, success: 0 });
    expect(run.store.lastStep().checkpoint).toBe(1);
  });

  it("begins anew with other options while it has no step, and refuses them from then on", async () => {
    const openWith = async (rate: number) => {
      const run = await Run.open({
        folder,
        record: { options: { rate }, contents: {} },
        shape,
        fork: undefined,
        agree: ({ options }) => {
          if (options.rate !== rate) throw new UsageError("begun differently");
        },
      });
      open.push(run);
      return run;
    };
    const first = await openWith(1);
    first.store.saveRollout("validation", 0, trajectoryOf());
    close(first);
    const same = await openWith(1);
    expect(same.begunAnew).toBe(false);
    expect(same.store.rollouts("validation", 0)).toHaveLength(1);
    close(same);

    const other = await openWith(2);
    expect(other.begunAnew).toBe(true);
    expect(other.store.record()?.options).toEqual({ rate: 2 });
    expect(other.store.rollouts("validation", 0)).toEqual([]);
    await train(partsOf(other, { settings: { steps: 1 } }));
    close(other);
    await expect(openWith(3)).rejects.toThrow("begun differently");
  });

  it("refuses to go on from a checkpoint that is damaged or gone", async () => {
    const run = await opened();
    await train(partsOf(run));
    const latest = run.checkpoints.pathOf(3);
    close(run);
    writeFileSync(join(latest, "optimizer.pt"), "x");
    await expect(openFake(folder)).rejects.toThrow("is damaged: optimizer.pt");
    rmSync(latest, { recursive: true });
    await expect(openFake(folder)).rejects.toThrow("0003 is gone");
    // A refused opening gives the lock back.
    await expect(openFake(folder)).rejects.toThrow("0003 is gone");
  });
});

describe("a fork", () => {
  it("starts another run from a checkpoint: its adapter plays, its optimizer goes on", async () => {
    const run = await opened();
    await train(partsOf(run));
    const source = run.checkpoints.pathOf(3);
    const fork = await opened("fork", source);
    expect(fork.store.lastStep()).toMatchObject({ step: 0, checkpoint: 0, adapter: run.store.lastStep().adapter });
    const starts: (string | undefined)[] = [];
    const parts = partsOf(fork, {
      learner: (from) => {
        starts.push(from);
        return new FakeLearner(from);
      },
    });
    await train(parts);
    expect(starts).toEqual([fork.checkpoints.pathOf(0)]);
    expect(parts.policy.played[0]).toContain(run.store.lastStep().adapter);
  });

  it("goes on after its first step when the checkpoint that it began from is gone", async () => {
    const source = await opened();
    await train(partsOf(source));
    const fork = await opened("fork", source.checkpoints.pathOf(3));
    await train(partsOf(fork, { settings: { steps: 1 } }));
    fork.checkpoints.prune(new Set([1]));
    await train(partsOf(fork, { settings: { steps: 2 } }));
    expect(fork.store.lastStep().step).toBe(2);
    expect(fork.store.validations().map(({ step }) => step)).toEqual([0, 1, 2]);
  });

  it("keeps the checkpoint that it began from, for comparison", async () => {
    const source = await opened();
    await train(partsOf(source));
    const fork = await opened("fork", source.checkpoints.pathOf(3));
    await train(partsOf(fork, { settings: { keep: 1 } }));
    expect(fork.checkpoints.list()).toContain(0);
  });

  it("goes on with the command that began it", async () => {
    const source = await opened();
    await train(partsOf(source));
    const from = source.checkpoints.pathOf(3);
    const fork = await opened("fork", from);
    await train(partsOf(fork, { settings: { steps: 1 } }));
    close(fork);
    const again = await opened("fork", from);
    expect(again.begunAnew).toBe(false);
    expect(again.store.lastStep().step).toBe(1);
    close(again);
    await expect(openFake(fork.folder, source.checkpoints.pathOf(2))).rejects.toThrow("not from");
  });

  it("goes on with that command when the other run has deleted the checkpoint since", async () => {
    const source = await opened();
    await train(partsOf(source));
    const from = source.checkpoints.pathOf(3);
    close(await opened("fork", from));
    source.checkpoints.prune(new Set());
    const again = await opened("fork", from);
    expect(again.begunAnew).toBe(false);
    expect(again.store.lastStep().checkpoint).toBe(0);
    // Not so a run that has no copy of it.
    await expect(openFake(join(base, "another"), from)).rejects.toThrow("is no checkpoint");
    await expect(openFake(source.folder, from)).rejects.toThrow("is no checkpoint");
  });

  it("is refused where a run has begun, and from what does not fit", async () => {
    const run = await opened();
    await train(partsOf(run));
    const source = run.checkpoints.pathOf(3);
    close(run);
    await expect(openFake(folder, source)).rejects.toThrow("has begun already");
    await expect(openFake(join(base, "fork"), join(folder, "logs"))).rejects.toThrow("is no checkpoint");
    const manifest = JSON.parse(readFileSync(join(source, "manifest.json"), "utf8"));
    writeFileSync(join(source, "manifest.json"), JSON.stringify({ ...manifest, model: "another" }));
    await expect(openFake(join(base, "fork"), source)).rejects.toThrow("belongs to another base model");
    writeFileSync(join(source, "manifest.json"), JSON.stringify({ ...manifest, lora: { ...manifest.lora, rank: 8 } }));
    await expect(openFake(join(base, "fork"), source)).rejects.toThrow(
      "another shape (rank 8, alpha 8, on q_proj,v_proj)",
    );
    expect(existsSync(join(base, "fork"))).toBe(false);
  });
});
