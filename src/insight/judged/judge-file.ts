/** The work of `yarn hone judge` without its output: scores the groups of a trajectory file. */
import type { Config } from "../../core/config/config.js";
import { comparable, tooFewLeft } from "../../core/reward/comparable.js";
import { brokenOff } from "../../core/rollout/deadline.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { count, mean } from "../../core/run/evaluation.js";
import type { Judge } from "../../judge/judge.js";
import { type JudgeQuality, judgeQuality, type LabelledGroup } from "../../judge/quality.js";
import { rulerSettings } from "../../judge/reward/judge.js";
import type { RulerConfig } from "../../judge/reward/judge-options.js";
import { rubricOf } from "../../judge/reward/rubric.js";
import { type GroupVerdict, judgeGroup } from "../../judge/ruler.js";
import { type FileConfig, type FileIo, filesOf, openHomeJudge, readGroups, writeJudged } from "./files.js";

/** A judged trajectory, as written to the new file. */
export interface JudgedTrajectory extends Trajectory {
  /** From 0 to 1; also the new reward. */
  ruler_score: number;
  explanation: string;
  /** The task's reward from before judging. */
  independent_reward: number;
}

export type JudgeSummary = Awaited<ReturnType<typeof judgeFile>>;

export interface JudgedGroup {
  readonly scenario: string;
  /** The members sent to the judge, or that would have been. */
  readonly members: readonly Trajectory[];
  /** Null when too few members were left to compare: the judge was not asked. */
  readonly verdict: GroupVerdict | null;
}

/** @throws HoneError when the judge cannot be asked any more; the verdicts so far are in the new file */
export async function judgeFile(
  config: FileConfig & RulerConfig & Pick<Config, "agreement">,
  io: FileIo & { readonly onGroup: (group: JudgedGroup, done: number, groups: number) => void },
) {
  const { file, out, task } = await filesOf(config, io, ".judged.jsonl");
  const settings = rulerSettings(config, rubricOf(config.rulerRubric), task, config.seed);
  const groups = await readGroups(file, task.name);
  const { judge, close } = await openHomeJudge(config, "this", false, io);
  try {
    let answered = 0;
    const asked = groups.map(async ([scenario, group]): Promise<JudgedGroup> => {
      const members = comparable(group);
      const verdict = tooFewLeft(members, group) ? null : await judgeGroup(members, judge, settings, io.signal);
      const judged = { scenario, members, verdict };
      io.onGroup(judged, ++answered, groups.length);
      return judged;
    });
    const countOf = (done: readonly JudgedGroup[]) => done.filter(({ verdict }) => verdict?.scores).length;
    const done = await writeJudged(
      asked,
      out,
      (done) => done.flatMap(judgedMembers),
      (done) => `${countOf(done)} of ${groups.length} groups`,
    );
    const agreements = done.flatMap(({ verdict }) => verdict?.agreement ?? []);
    const broken = groups.flatMap(([, group]) => group.flatMap((trajectory) => brokenOff(trajectory) ?? []));
    return {
      groups: groups.length,
      judged: countOf(done),
      /** Groups without a verdict, by cause; "broken_off": fewer than two rollouts were left to compare. Not in the new file. */
      no_verdict: count(done.flatMap(({ verdict }) => (verdict ? (verdict.noVerdict?.reason ?? []) : "broken_off"))),
      /**
       * Rollouts that ended by no fault of the model, by cause. They are not sent to the judge, and without a verdict they are
       * not in the new file.
       */
      rollouts_broken_off: broken.length,
      broken_off: count(broken),
      /** Verdicts taken from the cache. */
      cached: judge.cached,
      ...judge.usage(),
      /** Mean share of pairs that the votes order alike; null with one vote. */
      agreement: agreements.length === 0 ? null : mean(agreements),
      /** With --agreement: its scores against the rewards that the rollouts had. */
      quality: config.agreement ? judgeQuality(done.flatMap(labelled)) : null,
      /** The same of each of several judges, by name; empty for one alone. */
      quality_by_judge: config.agreement ? qualityByJudge(done.flatMap(labelled), judge) : {},
      /** The new file. */
      trajectories: out,
    };
  } finally {
    await close();
  }
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
