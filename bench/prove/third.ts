/**
 * As unmet.ts, a third list, by an author who had read the learner's update, its backend, the core's step, sampling and storage, and
 * neither of the other lists, nor src/guards, nor docs/trust.md. Two of his turned out to be in those lists, and were replaced, after he
 * had read the guards, by two that he had thought of before. Guards of what nobody saw were written then.
 */
import { ANY_REWARD, at, type Fault } from "./fault.js";

const list: readonly Omit<Fault, "outside">[] = [
  {
    name: "sampled log-probabilities rounded to two decimals where they are recorded",
    family: "log-probabilities",
    patch: at(
      "src/core/rollout/transcript.ts",
      "this.#logprobs.push(Math.min(logprob, 0));",
      "this.#logprobs.push(Math.min(Math.round(logprob * 100) / 100, 0));",
    ),
    flags: ANY_REWARD,
  },
  {
    name: "a tool's result cut to 60 characters for the model, and whole in the record",
    family: "tokens",
    patch: at(
      "src/core/rollout/engine-session.ts",
      "this.#pending = this.#chat.template.delta(before, tools, messages, this.#closed);",
      `const cut = messages.map((one) => ({ ...one, content: one.content.slice(0, 60) })) as ChatMessage[];
    this.#pending = this.#chat.template.delta(before, tools, cut, this.#closed);`,
    ),
    flags: ANY_REWARD,
  },
  {
    name: "the mean reward of a step over its trainable groups alone",
    family: "rewards",
    patch: at(
      "src/core/train/metrics.ts",
      "reward: mean(trajectories.map(({ reward }) => reward.reward)),",
      "reward: mean(groups.filter(({ hasSignal }) => hasSignal).flatMap(({ members }) => members.map((one) => one.trajectory.reward.reward))),",
    ),
  },
  {
    name: "the gradient's norm of every other parameter",
    family: "learner",
    patch: at(
      "native/learner/optimizer.py",
      "clip_grad_norm_(self.parameters, max_norm))",
      "clip_grad_norm_(self.parameters[::2], max_norm))",
    ),
    flags: ["--max-grad-norm", "0.01", ...ANY_REWARD],
  },
  {
    name: "where rollouts part, the gradient of all next tokens but the first is left out",
    family: "learner",
    patch: at("native/learner/head.py", "for some in others.split(", "for some in others[:0].split("),
    flags: ANY_REWARD,
  },
  {
    name: "each step of an epoch plays the scenarios of its first",
    family: "policy",
    patch: at(
      "src/trainer/sampler.ts",
      "next: { epoch, at: end }",
      "next: { epoch, at: step % this.stepsPerEpoch === 0 ? order.length : 0 }",
    ),
    flags: ANY_REWARD,
  },
  {
    name: "two consecutive tokens drawn with the same random number",
    family: "engine",
    patch: at("native/engine/sampling.cc", "golden * (position + 1))", "golden * ((position | 1) + 1))"),
    flags: ANY_REWARD,
  },
  {
    name: "the last 5 % of the probability is never drawn from",
    family: "engine",
    patch: at(
      "native/engine/sampling.cc",
      "drawn.token = drawFromAll(row, draw * total);",
      "drawn.token = drawFromAll(row, draw * 0.95 * total);",
    ),
    flags: ANY_REWARD,
  },
];

export const third: readonly Fault[] = list.map((one) => ({ ...one, outside: "third" }));
