/** The task of the sections `task-…`, which same_task.py has for TRL and Unsloth: write vowels after a prompt of some 200 tokens. */
import { defineTask } from "hone";

export default defineTask({
  name: "vowels",
  scenarios: () =>
    Array.from({ length: 64 }, (_, i) => ({
      id: `v${i}`,
      split: i < 56 ? ("train" as const) : ("test" as const),
      question: `Write vowels, ${i}. `.repeat(25).trim(),
    })),
  prompt: ({ question }) => [{ role: "user", content: question }],
  tools: [],
  reward: ({ messages }) => {
    const text = messages.filter(({ role }) => role === "assistant").map(({ content }) => content);
    const written = text.join("");
    const share = written.length === 0 ? 0 : (written.match(/[aeiou]/gi)?.length ?? 0) / written.length;
    return { reward: share, success: share >= 0.5, parts: { vowels: share } };
  },
});
