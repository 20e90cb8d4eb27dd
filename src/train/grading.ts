/** Plays scenarios and says how many were solved: what validations and `yarn eval` have in common. */
import { count, evaluate } from "../report/index.js";
import { type Graded, type GradeRollout, GroupWork } from "../reward/index.js";
import type { Trajectory } from "../rollout/index.js";
import type { Evaluation } from "../run/index.js";
import type { Played } from "./parts.js";

/**
 * Grades each group as soon as it is complete, while others are still being played.
 *
 * @param play has to tell `onGroup` of every complete group, and to stop when its signal is aborted
 */
export async function playGraded(
  signal: AbortSignal,
  grade: GradeRollout,
  play: (signal: AbortSignal, onGroup: (group: readonly Trajectory[]) => void) => Promise<Played>,
): Promise<Evaluation> {
  const grading = new GroupWork((group) => Promise.all(group.map(grade)));
  const { groups, failures } = await grading.during(signal, (signal) => play(signal, (group) => grading.begin(group)));
  const grades = await grading.all(groups, []);
  return evaluateGraded(groups.flat(), grades.flat(), failures.length);
}

/** The task's own reward says whether the answer is right. */
export const gradeOwn: GradeRollout = async ({ reward }) => ({ kind: "graded", reward });

/** Figures over the rollouts that have a grade; the others are left out and counted. */
export function evaluateGraded(
  trajectories: readonly Trajectory[],
  grades: readonly Graded[],
  failures: number,
): Evaluation {
  const graded = trajectories.flatMap((trajectory, i) => {
    const grade = grades[i];
    return grade?.kind === "graded" ? [{ ...trajectory, reward: grade.reward }] : [];
  });
  return evaluate(graded, failures, count(grades.flatMap((grade) => (grade.kind === "lost" ? [grade.reason] : []))));
}
