/**
 * The work of `yarn hone judge --correctness` without its output: decides whether the answers of a trajectory file are right, as
 * `--accuracy judge` does, those that the task's own comparison accepts too.
 */
import type { Config } from "../../core/config/config.js";
import { brokenOff } from "../../core/rollout/deadline.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { count } from "../../core/run/evaluation.js";
import type { Claim } from "../../core/task/task.js";
import { HoneError } from "../../core/util/errors.js";
import { type CorrectnessVote, majority, votesOn, whyNone } from "../../judge/correctness.js";
import type { Judge } from "../../judge/judge.js";
import { NoVerdict } from "../../judge/no-verdict.js";
import { claimOf, requireClaim } from "../../judge/reward/claims.js";
import { correctnessQuality, type JudgedAnswer } from "../report/correctness-quality.js";
import { type FileConfig, type FileIo, filesOf, openHomeJudge, readGroups, writeJudged } from "./files.js";

/** One line of the new file. */
type AnswerRow = ReturnType<typeof rowOf>;

export type AnswersSummary = Awaited<ReturnType<typeof judgeAnswers>>;

interface Asked {
  readonly trajectory: Trajectory;
  readonly claim: Claim;
}

/** @throws HoneError when the judge cannot be asked any more; the verdicts so far are in the new file */
export async function judgeAnswers(
  config: FileConfig & Pick<Config, "agreement" | "judgeVotes">,
  io: FileIo & { readonly onAnswer: (row: AnswerRow, done: number, answers: number) => void },
) {
  const { file, out, task } = await filesOf(config, io, ".answers.jsonl");
  requireClaim(task, "--correctness");
  const trajectories = (await readGroups(file, task.name)).flatMap(([, group]) => group);
  const asked = trajectories
    .filter((trajectory) => !brokenOff(trajectory))
    .flatMap((trajectory): Asked[] => {
      const claim = claimOf(task, trajectory);
      return claim ? [{ trajectory, claim }] : [];
    });
  if (asked.length === 0) throw new HoneError(`no rollout of ${file} gave an answer: there is nothing to judge`);
  const { judge, close } = await openHomeJudge(config, "this", false, io);
  try {
    let done = 0;
    const judged = await writeJudged(
      asked.map(async (one) => {
        const votes = await votesOn(one.claim, judge, config.judgeVotes, io.signal);
        const row = rowOf(one, votes);
        io.onAnswer(row, ++done, asked.length);
        return { one, votes, row };
      }),
      out,
      (judged) => judged.map(({ row }) => row),
      (judged) => `${judged.length} of ${asked.length} answers`,
    );
    const quality = (of?: Judge) =>
      correctnessQuality(
        judged.map(({ one, votes }) => labelled(one, of ? votes.filter((vote) => vote.judge === of) : votes)),
      );
    const several = config.agreement && judge.all.length > 1;
    return {
      rollouts: trajectories.length,
      /** Rollouts that gave an answer, and did not end by a fault that was not the model's. */
      answers: asked.length,
      judged: judged.filter(({ row }) => row.judge !== null).length,
      accepted: judged.filter(({ row }) => row.judge === true).length,
      /** Answers without a verdict, by cause. */
      no_verdict: count(judged.flatMap(({ votes, row }) => (row.judge === null ? whyNone(votes).reason : []))),
      /** Verdicts taken from the cache. */
      cached: judge.cached,
      ...judge.usage(),
      /** With --agreement. */
      quality: config.agreement ? quality() : null,
      /** The same of each of several judges, by name; empty for one alone. */
      quality_by_judge: several ? Object.fromEntries(judge.all.map((one) => [one.name, quality(one)])) : {},
      /** The new file. */
      out,
    };
  } finally {
    await close();
  }
}

function rowOf({ trajectory, claim }: Asked, votes: readonly CorrectnessVote[]) {
  const verdict = majority(votes);
  return {
    id: trajectory.id,
    scenario: trajectory.scenario.id,
    ...claim,
    /** Whether the task's own comparison accepts it. */
    task: trajectory.reward.success,
    /** null without a verdict. */
    judge: verdict?.accept ?? null,
    reasoning: verdict?.reasoning ?? "",
  };
}

function labelled({ trajectory, claim }: Asked, votes: readonly CorrectnessVote[]): JudgedAnswer {
  return {
    scenario: trajectory.scenario.id,
    length: claim.given.length,
    right: trajectory.reward.success,
    accepted: majority(votes)?.accept ?? null,
    votes: votes.flatMap(({ verdict }) => (verdict instanceof NoVerdict ? [] : verdict.value.accept)),
    cost: costOf(votes),
  };
}

function costOf(votes: readonly CorrectnessVote[]): number | null {
  const costs = votes.flatMap(({ verdict }) => {
    if (!(verdict instanceof NoVerdict) && verdict.cached) return [null];
    return verdict.exchanges.map(({ cost }) => cost);
  });
  return costs.every((cost) => cost !== null) ? costs.reduce((sum, cost) => sum + cost, 0) : null;
}
