/** Plays scenarios and counts how many were solved: shared by validations and `yarn eval`. */

import { GroupWork } from "../reward/group-work.js";
import type { Graded, GradeRollout } from "../reward/reward.js";
import type { Trajectory } from "../rollout/trajectory.js";
import { count, evaluate } from "../run/evaluation.js";
import type { Evaluation } from "../run/records.js";
import type { PlayResult } from "./parts.js";

/** Rollouts with their graded reward; those without a grade are left out and counted. */
export interface GradedPlay {
  readonly graded: readonly Trajectory[];
  readonly failures: number;
  readonly unjudged: Evaluation["unjudged"];
}

/**
 * Grades each group as soon as it is complete, while others are still being played.
 *
 * @param play must call `onGroup` for every complete group, and stop when its signal is aborted
 */
export async function playAndGrade(
  signal: AbortSignal,
  grade: GradeRollout,
  play: (signal: AbortSignal, onGroup: (group: readonly Trajectory[]) => void) => Promise<PlayResult>,
): Promise<GradedPlay> {
  const grading = new GroupWork((group) => Promise.all(group.map(grade)));
  const { groups, failures } = await grading.during(signal, (signal) => play(signal, (group) => grading.begin(group)));
  const grades = await grading.all(groups, []);
  return gradedOf(groups.flat(), grades.flat(), failures.length);
}

/** Result of {@link playAndGrade} as figures. */
export async function playGraded(...[signal, grade, play]: Parameters<typeof playAndGrade>): Promise<Evaluation> {
  const { graded, failures, unjudged } = await playAndGrade(signal, grade, play);
  return evaluate(graded, failures, unjudged);
}

/** The grade by the task's own reward. */
export const gradeOwn: GradeRollout = async ({ reward }) => ({ kind: "graded", reward });

export function gradedOf(trajectories: readonly Trajectory[], grades: readonly Graded[], failures: number): GradedPlay {
  const graded = trajectories.flatMap((trajectory, i) => {
    const grade = grades[i];
    return grade?.kind === "graded" ? [{ ...trajectory, reward: grade.reward }] : [];
  });
  return {
    graded,
    failures,
    unjudged: count(grades.flatMap((grade) => (grade.kind === "no_verdict" ? [grade.reason] : []))),
  };
}
