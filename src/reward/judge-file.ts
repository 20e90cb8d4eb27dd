/** `yarn hone judge` without its words: scores the groups of a trajectory file. */
import { createWriteStream, existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { finished } from "node:stream/promises";
import type { Config } from "../config/index.js";
import { type JudgeUsage, openVerdictFile, type Ruling, rule } from "../judge/index.js";
import { count, mean } from "../report/index.js";
import { readTrajectories, type Trajectory } from "../rollout/index.js";
import { loadTask } from "../tasks/index.js";
import { HoneError, messageOf, UsageError } from "../util/index.js";
import { openJudge, type RulerConfig, rubricOf, rulerSettings, VERDICTS_FILE } from "./judge.js";

/** A trajectory that was judged, as the new file has it. */
export interface JudgedTrajectory extends Trajectory {
  /** From 0 to 1; it is the reward too. */
  ruler_score: number;
  explanation: string;
  /** The reward it had before, which nobody's opinion changes. */
  independent_reward: number;
}

export interface JudgeSummary extends JudgeUsage {
  groups: number;
  judged: number;
  /** Groups without a verdict, by why. They are not in the new file. */
  lost: Record<string, number>;
  /** Verdicts that were remembered from before. */
  cached: number;
  /** Mean share of pairs that votes order alike; null with one vote. */
  agreement: number | null;
  /** The new file. */
  trajectories: string;
}

export interface JudgeFileIo {
  readonly signal: AbortSignal;
  readonly say: (text: string) => void;
  readonly onRuling: (group: readonly Trajectory[], ruling: Ruling, done: number, groups: number) => void;
}

type JudgeFileConfig = RulerConfig &
  Pick<Config, "home" | "task" | "seed" | "out"> & { readonly file: NonNullable<Config["file"]> };

/** @throws HoneError when the judge cannot be asked any more; what was judged until then is in the new file */
export async function judgeFile(config: JudgeFileConfig, io: JudgeFileIo): Promise<JudgeSummary> {
  const file = resolve(config.file);
  if (!existsSync(file)) throw new UsageError(`judge: there is no file ${file}; \`yarn rollout\` writes such files`);
  const out = resolve(config.out ?? file.replace(/(\.jsonl)?$/, ".judged.jsonl"));
  if (out === file) throw new UsageError(`--out ${config.out}: that is the file to be judged; give another name`);
  const task = await loadTask(config.task);
  const settings = rulerSettings(config, rubricOf(config.rulerRubric), task, config.seed);
  const { cache, close } = openVerdictFile(join(config.home, VERDICTS_FILE));
  try {
    const judge = openJudge(config, "this", cache, undefined, io.say);
    const groups = await readGroups(file, task.name);
    const rulings = new Map<readonly Trajectory[], Ruling>();
    const asked = await Promise.allSettled(
      groups.map(async (group) => {
        const ruling = await rule(group, judge, settings, io.signal);
        rulings.set(group, ruling);
        io.onRuling(group, ruling, rulings.size, groups.length);
      }),
    );
    await write(
      out,
      groups.flatMap((group) => judgedMembers(group, rulings.get(group))),
    );
    const failed = asked.find(({ status }) => status === "rejected") as PromiseRejectedResult | undefined;
    if (failed) {
      if (!(failed.reason instanceof HoneError)) throw failed.reason;
      throw new HoneError(
        `${failed.reason.message}. ${rulings.size} of ${groups.length} groups were judged until then and are in ${out}; the same command goes on with the rest`,
      );
    }
    const done = [...rulings.values()];
    const agreements = done.flatMap(({ agreement }) => agreement ?? []);
    return {
      groups: groups.length,
      judged: done.filter(({ scores }) => scores).length,
      lost: count(done.flatMap(({ lost }) => lost?.reason ?? [])),
      cached: judge.cached,
      ...judge.client.usage(),
      agreement: agreements.length === 0 ? null : mean(agreements),
      trajectories: out,
    };
  } finally {
    close();
  }
}

/** The reward that no judge has touched: a file that was judged before keeps its first one. */
export function independentReward(trajectory: Trajectory): number {
  return (trajectory as Partial<JudgedTrajectory>).independent_reward ?? trajectory.reward.reward;
}

/** Rollouts of one scenario are compared with each other, in the order of the file. */
async function readGroups(file: string, task: string): Promise<Trajectory[][]> {
  const groups = new Map<string, Trajectory[]>();
  for await (const trajectory of readTrajectories(file)) {
    if (trajectory.task !== task) {
      throw new HoneError(`${file} has rollouts of the task ${trajectory.task}, not ${task}; give it with --task`);
    }
    const group = groups.get(trajectory.scenario.id) ?? [];
    groups.set(trajectory.scenario.id, group);
    group.push(trajectory);
  }
  if (groups.size === 0) throw new HoneError(`${file} is empty: there is nothing to judge`);
  return [...groups.values()];
}

function judgedMembers(group: readonly Trajectory[], ruling: Ruling | undefined): JudgedTrajectory[] {
  const scores = ruling?.scores;
  if (!scores) return [];
  return group.map((trajectory, i) => {
    const { score, explanation } = scores[i] as NonNullable<(typeof scores)[number]>;
    const reward = { ...trajectory.reward, reward: score };
    return {
      ...trajectory,
      reward,
      ruler_score: score,
      explanation,
      independent_reward: independentReward(trajectory),
    };
  });
}

/** Written aside first: a file of that name is whole. */
async function write(out: string, trajectories: readonly JudgedTrajectory[]): Promise<void> {
  const aside = `${out}.new`;
  try {
    mkdirSync(dirname(out), { recursive: true });
    const stream = createWriteStream(aside);
    const written = finished(stream);
    for (const trajectory of trajectories) stream.write(`${JSON.stringify(trajectory)}\n`);
    stream.end();
    await written;
    renameSync(aside, out);
  } catch (error) {
    rmSync(aside, { force: true });
    throw new HoneError(`the trajectory file ${out} cannot be written: ${messageOf(error)}`);
  }
}
