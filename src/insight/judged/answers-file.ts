/**
 * The work of `yarn hone judge --correctness` without its output: decides whether the answers of a trajectory file are right, as
 * `--accuracy judge` does, those that the task's own comparison accepts too.
 */
import type { Config } from "../../core/config/config.js";
import { brokenOff } from "../../core/rollout/deadline.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { count } from "../../core/run/evaluation.js";
import type { JudgeUsage } from "../../core/run/verdicts.js";
import type { Claim } from "../../core/task/task.js";
import { HoneError } from "../../core/util/errors.js";
import { type CorrectnessVerdict, correctnessQuestion, majority } from "../../judge/correctness.js";
import { type Judge, NoVerdictAfterAnswers, type Verdict } from "../../judge/judge.js";
import { NoVerdict } from "../../judge/no-verdict.js";
import { claimOf, requireClaim } from "../../judge/reward/claims.js";
import { type CorrectnessQuality, correctnessQuality, type JudgedAnswer } from "../report/correctness-quality.js";
import { type FileConfig, type FileIo, filesOf, readGroups, withJudge, writeLines } from "./files.js";

/** One line of the new file. */
export interface AnswerRow extends Claim {
  readonly id: string;
  readonly scenario: string;
  /** Whether the task's own comparison accepts it. */
  readonly task: boolean;
  /** null without a verdict. */
  readonly judge: boolean | null;
  readonly reasoning: string;
}

export interface AnswersSummary extends JudgeUsage {
  readonly rollouts: number;
  /** Rollouts that gave an answer, and did not end by a fault that was not the model's. */
  readonly answers: number;
  readonly judged: number;
  readonly accepted: number;
  /** Answers without a verdict, by cause. */
  readonly no_verdict: Record<string, number>;
  /** Verdicts taken from the cache. */
  readonly cached: number;
  /** With --agreement. */
  readonly quality: CorrectnessQuality | null;
  /** The same of each of several judges, by name; empty for one alone. */
  readonly quality_by_judge: Record<string, CorrectnessQuality>;
  /** The new file. */
  readonly out: string;
}

export interface AnswersIo extends FileIo {
  readonly onAnswer: (row: AnswerRow, done: number, answers: number) => void;
}

/** What a judge said of an answer in one vote. */
interface Vote {
  readonly judge: Judge;
  readonly verdict: Verdict<CorrectnessVerdict> | NoVerdict;
}

interface Asked {
  readonly trajectory: Trajectory;
  readonly claim: Claim;
}

/** @throws HoneError when the judge cannot be asked any more; the verdicts so far are in the new file */
export async function judgeAnswers(
  config: FileConfig & Pick<Config, "agreement" | "judgeVotes">,
  io: AnswersIo,
): Promise<AnswersSummary> {
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
  return withJudge(config, io, async (judge) => {
    let done = 0;
    const settled = await Promise.allSettled(
      asked.map(async (one) => {
        const votes = await votesOn(one.claim, judge, config.judgeVotes, io.signal);
        const row = rowOf(one, votes);
        io.onAnswer(row, ++done, asked.length);
        return { one, votes, row };
      }),
    );
    const judged = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    await writeLines(
      out,
      judged.map(({ row }) => row),
    );
    const failed = settled.find(({ status }) => status === "rejected") as PromiseRejectedResult | undefined;
    if (failed) {
      if (!(failed.reason instanceof HoneError)) throw failed.reason;
      throw new HoneError(
        `${failed.reason.message}. ${judged.length} of ${asked.length} answers were judged until then and are in ${out}; the same command goes on with the rest`,
      );
    }
    const quality = (of?: Judge) =>
      correctnessQuality(
        judged.map(({ one, votes }) => labelled(one, of ? votes.filter((vote) => vote.judge === of) : votes)),
      );
    const several = config.agreement && judge.all.length > 1;
    return {
      rollouts: trajectories.length,
      answers: asked.length,
      judged: judged.filter(({ row }) => row.judge !== null).length,
      accepted: judged.filter(({ row }) => row.judge === true).length,
      no_verdict: count(judged.flatMap(({ votes }) => whyNone(votes) ?? [])),
      cached: judge.cached,
      ...judge.usage(),
      quality: config.agreement ? quality() : null,
      quality_by_judge: several ? Object.fromEntries(judge.all.map((one) => [one.name, quality(one)])) : {},
      out,
    };
  });
}

/** @throws JudgeStopped when there will be no verdicts any more */
function votesOn(claim: Claim, judge: Judge, times: number, signal: AbortSignal): Promise<Vote[]> {
  const question = correctnessQuestion(claim);
  return Promise.all(
    judge.all.flatMap((one) =>
      Array.from({ length: times }, async (_, vote): Promise<Vote> => {
        try {
          return { judge: one, verdict: await one.ask({ ...question, vote }, signal) };
        } catch (error) {
          if (error instanceof NoVerdict) return { judge: one, verdict: error };
          throw error;
        }
      }),
    ),
  );
}

const verdictsOf = (votes: readonly Vote[]) =>
  votes.map(({ verdict }) => (verdict instanceof NoVerdict ? undefined : verdict.value));

function whyNone(votes: readonly Vote[]): string | undefined {
  if (majority(verdictsOf(votes))) return undefined;
  return votes.flatMap(({ verdict }) => (verdict instanceof NoVerdict ? [verdict.reason] : []))[0] ?? "divided";
}

function rowOf({ trajectory, claim }: Asked, votes: readonly Vote[]): AnswerRow {
  const verdict = majority(verdictsOf(votes));
  return {
    id: trajectory.id,
    scenario: trajectory.scenario.id,
    ...claim,
    task: trajectory.reward.success,
    judge: verdict?.accept ?? null,
    reasoning: verdict?.reasoning ?? "",
  };
}

function labelled({ trajectory, claim }: Asked, votes: readonly Vote[]): JudgedAnswer {
  const verdicts = verdictsOf(votes);
  return {
    scenario: trajectory.scenario.id,
    length: claim.given.length,
    right: trajectory.reward.success,
    accepted: majority(verdicts)?.accept ?? null,
    votes: verdicts.flatMap((one) => one?.accept ?? []),
    cost: costOf(votes),
  };
}

function costOf(votes: readonly Vote[]): number | null {
  const costs = votes.flatMap(({ verdict }) => {
    if (verdict instanceof NoVerdictAfterAnswers) return verdict.exchanges.map(({ cost }) => cost);
    if (verdict instanceof NoVerdict || verdict.cached) return [null];
    return verdict.exchanges.map(({ cost }) => cost);
  });
  return costs.every((cost) => cost !== null) ? costs.reduce((sum, cost) => sum + cost, 0) : null;
}
