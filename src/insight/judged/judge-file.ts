/** The work of `yarn hone judge` without its output: scores the groups of a trajectory file. */
import type { Config } from "../../core/config/config.js";
import { comparable, tooFewLeft } from "../../core/reward/comparable.js";
import { brokenOff } from "../../core/rollout/deadline.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { count, mean } from "../../core/run/evaluation.js";
import type { JudgeUsage } from "../../core/run/verdicts.js";
import { HoneError } from "../../core/util/errors.js";
import type { Judge } from "../../judge/judge.js";
import { type JudgeQuality, judgeQuality, type LabelledGroup } from "../../judge/quality.js";
import { rulerSettings } from "../../judge/reward/judge.js";
import { type RulerConfig, rubricOf } from "../../judge/reward/judge-options.js";
import { type GroupVerdict, judgeGroup } from "../../judge/ruler.js";
import { type FileConfig, type FileIo, filesOf, readGroups, withJudge, writeLines } from "./files.js";

/** A judged trajectory, as written to the new file. */
export interface JudgedTrajectory extends Trajectory {
  /** From 0 to 1; also the new reward. */
  ruler_score: number;
  explanation: string;
  /** The task's reward from before judging. */
  independent_reward: number;
}

export interface JudgeSummary extends JudgeUsage {
  groups: number;
  judged: number;
  /** Groups without a verdict, by cause; "broken_off": fewer than two rollouts were left to compare. Not in the new file. */
  no_verdict: Record<string, number>;
  /**
   * Rollouts that ended by no fault of the model. They are not sent to the judge, and without a verdict they are not in
   * the new file.
   */
  rollouts_broken_off: number;
  /** Those rollouts, by cause. */
  broken_off: Record<string, number>;
  /** Verdicts taken from the cache. */
  cached: number;
  /** Mean share of pairs that the votes order alike; null with one vote. */
  agreement: number | null;
  /** With --agreement: its scores against the rewards that the rollouts had. */
  quality: JudgeQuality | null;
  /** The same of each of several judges, by name; empty for one alone. */
  quality_by_judge: Record<string, JudgeQuality>;
  /** The new file. */
  trajectories: string;
}

export interface JudgedGroup {
  readonly scenario: string;
  /** The members sent to the judge, or that would have been. */
  readonly members: readonly Trajectory[];
  /** Null when too few members were left to compare: the judge was not asked. */
  readonly verdict: GroupVerdict | null;
}

export interface JudgeFileIo extends FileIo {
  readonly onGroup: (group: JudgedGroup, done: number, groups: number) => void;
}

/** @throws HoneError when the judge cannot be asked any more; the verdicts so far are in the new file */
export async function judgeFile(
  config: FileConfig & RulerConfig & Pick<Config, "agreement">,
  io: JudgeFileIo,
): Promise<JudgeSummary> {
  const { file, out, task } = await filesOf(config, io, ".judged.jsonl");
  const settings = rulerSettings(config, rubricOf(config.rulerRubric), task, config.seed);
  const groups = await readGroups(file, task.name);
  return withJudge(config, io, async (judge) => {
    let answered = 0;
    const asked = await Promise.allSettled(
      groups.map(async ([scenario, group]): Promise<JudgedGroup> => {
        const members = comparable(group);
        const verdict = tooFewLeft(members, group) ? null : await judgeGroup(members, judge, settings, io.signal);
        const judged = { scenario, members, verdict };
        io.onGroup(judged, ++answered, groups.length);
        return judged;
      }),
    );
    const done = asked.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const judged = done.filter(({ verdict }) => verdict?.scores).length;
    await writeLines(out, done.flatMap(judgedMembers));
    const failed = asked.find(({ status }) => status === "rejected") as PromiseRejectedResult | undefined;
    if (failed) {
      if (!(failed.reason instanceof HoneError)) throw failed.reason;
      throw new HoneError(
        `${failed.reason.message}. ${judged} of ${groups.length} groups were judged until then and are in ${out}; the same command goes on with the rest`,
      );
    }
    const agreements = done.flatMap(({ verdict }) => verdict?.agreement ?? []);
    const broken = groups.flatMap(([, group]) => group.flatMap((trajectory) => brokenOff(trajectory) ?? []));
    return {
      groups: groups.length,
      judged,
      no_verdict: count(done.flatMap(({ verdict }) => (verdict ? (verdict.noVerdict?.reason ?? []) : "broken_off"))),
      rollouts_broken_off: broken.length,
      broken_off: count(broken),
      cached: judge.cached,
      ...judge.usage(),
      agreement: agreements.length === 0 ? null : mean(agreements),
      quality: config.agreement ? judgeQuality(done.flatMap(labelled)) : null,
      quality_by_judge: config.agreement ? qualityByJudge(done.flatMap(labelled), judge) : {},
      trajectories: out,
    };
  });
}

function qualityByJudge(groups: readonly LabelledGroup[], { all }: Judge): Record<string, JudgeQuality> {
  if (all.length === 1) return {};
  const of = (name: string) =>
    groups.flatMap(({ verdict: { judges }, labels }) =>
      judges.flatMap(({ judge, verdict }) => (judge === name ? [{ verdict, labels }] : [])),
    );
  return Object.fromEntries(all.map(({ name }) => [name, judgeQuality(of(name))]));
}

function labelled({ members, verdict }: JudgedGroup) {
  const labels = members.map((one) => ({ reward: independentReward(one), success: one.reward.success }));
  return verdict ? [{ verdict, labels }] : [];
}

/** The task's reward: a file that was judged before keeps its first one. */
export function independentReward(trajectory: Trajectory): number {
  return (trajectory as Partial<JudgedTrajectory>).independent_reward ?? trajectory.reward.reward;
}

function judgedMembers({ members, verdict }: JudgedGroup): JudgedTrajectory[] {
  const scores = verdict?.scores;
  if (!scores) return [];
  return members.map((trajectory, i) => {
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
