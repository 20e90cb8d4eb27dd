/** Questions from scenarios.jsonl, answered in plain text. `hone check` looks whether its reward makes sense. */
import { composeReward, defineTask, exactMatch, fromFile, type Scenario, z } from "@hone-rl/hone";

const fields = z.object({ answer: z.string() });
type Question = Scenario & z.infer<typeof fields>;

export default defineTask<Question>({
  name: "capitals",
  description: "Name the capital of a country",
  // CSV and Parquet too, or a data set of the Hub as "hf:OWNER/NAME"; `map` says which column is which field.
  scenarios: fromFile(new URL("scenarios.jsonl", import.meta.url), { fields }),
  prompt: ({ question }) => [
    { role: "system", content: "Answer with the name of the city alone." },
    { role: "user", content: question },
  ],
  reward: composeReward<Question>({
    parts: {
      right: { weight: 1, score: exactMatch(({ answer }) => answer) },
      // Of two wrong answers the shorter one is better. A part that differs is what the first steps learn from.
      short: { weight: 0.2, score: ({ messages }) => 20 / (20 + (messages.at(-1)?.content.length ?? 0)) },
    },
    success: "right",
  }),
  // A player that knows the answers: `hone check` plays it, and `hone rollout --expert --show` prints it.
  *expert({ answer }) {
    yield answer;
  },
});
