/** What RULER is told to look at, unless a rubric is given. */
export const defaultRubric = `- An attempt that reaches the goal scores clearly higher than every attempt that does not.
- Of two attempts that reach it, the one that takes the shorter way (fewer turns, no detours, no failed calls) scores somewhat higher.
- Distances mean something: attempts of nearly the same quality have nearly the same score, a large difference in quality is a large difference in score.
- An attempt that does not reach the goal earns a little for real progress towards it, and nothing for claims that its tool results do not bear out.`;
