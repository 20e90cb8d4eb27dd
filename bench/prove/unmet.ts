/**
 * As outside.ts, by another author, who had read neither that list nor the guards, their messages, their tests or docs/trust.md. No
 * guard was written for them when they were first tried: those outcomes are the share in docs/trust.md, and stay. Guards of what
 * nobody saw were written then; what is seen since stands beside.
 */
import { ANY_REWARD, at, type Fault, TWICE } from "./fault.js";

const list: readonly Omit<Fault, "outside">[] = [
  {
    name: "a prompt taken from the cache by the roles of its messages, not their texts",
    family: "tokens",
    patch: at("src/chat/template.ts", "toJson([messages, tools])", "toJson([messages.map(({ role }) => role), tools])"),
    flags: ANY_REWARD,
  },
  {
    name: "the template's line break after a closed turn lost",
    family: "tokens",
    patch: at(
      "src/chat/template.ts",
      "return closed ? after.slice(this.closing.text.length) : after;",
      "return closed ? after.slice(this.closing.text.length).trimStart() : after;",
    ),
    flags: ANY_REWARD,
  },
  {
    name: "log-probabilities of unlikely tokens raised to a floor",
    family: "log-probabilities",
    patch: at(
      "src/core/rollout/transcript.ts",
      "this.#logprobs.push(Math.min(logprob, 0));",
      "this.#logprobs.push(Math.max(Math.min(logprob, 0), -3));",
    ),
    flags: ANY_REWARD,
  },
  {
    name: "importance weights of the policy in training, not of π_old",
    family: "log-probabilities",
    patch: at(
      "native/learner/loss.py",
      "weight = weights(tokens.old, tokens.rollout, tokens.owner, settings.importance)",
      "weight = weights(tokens.new, tokens.rollout, tokens.owner, settings.importance)",
    ),
    flags: [...TWICE, ...ANY_REWARD],
  },
  {
    name: "rewards in the order in which the rollouts ended, not that of the group",
    family: "rewards",
    patch: at(
      "src/core/gather/gather.ts",
      "this.#options.onGroup?.(inOrder(done));",
      "this.#options.onGroup?.([...done]);",
    ),
    flags: ANY_REWARD,
  },
  {
    name: "the floor of the deviation as its least value, not added to it",
    family: "advantages",
    patch: at(
      "src/core/learn/advantages.ts",
      "grpo: std + options.stdFloor,",
      "grpo: Math.max(std, options.stdFloor),",
    ),
    flags: ANY_REWARD,
  },
  {
    name: "a token that shares its position with others takes the derivative of another token",
    family: "learner",
    patch: at("native/learner/head.py", "rows.mul_(factors[own, None])", "rows.mul_(factors[at, None])"),
    flags: ANY_REWARD,
  },
  {
    name: "the shares of the mean in the order of the batch, not of the rows",
    family: "learner",
    patch: at("native/learner/minibatches.py", "batch.of_rollout[slots], played", "batch.of_rollout, played"),
    flags: ["--loss", "grpo", ...ANY_REWARD],
  },
  {
    name: "Adam begins anew in each step",
    family: "learner",
    patch: at(
      "native/learner/optimizer.py",
      "if self.objective not in (None, objective):",
      "if self.objective in (None, objective):",
    ),
    flags: ANY_REWARD,
  },
  {
    name: "the gradient clipped by its largest number, not by its norm",
    family: "learner",
    patch: at(
      "native/learner/optimizer.py",
      "clip_grad_norm_(self.parameters, max_norm))",
      'clip_grad_norm_(self.parameters, max_norm, float("inf")))',
    ),
    flags: ["--max-grad-norm", "0.01", ...ANY_REWARD],
  },
  {
    name: "the gradient of an update still there in the next one",
    family: "learner",
    patch: at(
      "native/learner/update.py",
      "optimizer.update(request.learning_rate)\n        optimizer.clear()\n",
      "optimizer.update(request.learning_rate)\n",
    ),
    flags: [...TWICE, ...ANY_REWARD],
  },
  {
    name: "the KL term without a gradient",
    family: "learner",
    patch: at(
      "native/learner/loss.py",
      "settings.kl_coefficient * k3(tokens.new, tokens.base)",
      "settings.kl_coefficient * k3(tokens.new.detach(), tokens.base)",
    ),
    flags: ["--kl", "0.5", ...ANY_REWARD],
  },
  {
    name: "iterations and mini-batches swapped",
    family: "learner",
    patch: at(
      "src/trainer/updater.ts",
      "epochs: settings.iterations,\n      minibatches: settings.minibatches,",
      "epochs: settings.minibatches,\n      minibatches: settings.iterations,",
    ),
    flags: [...TWICE, ...ANY_REWARD],
  },
  {
    name: "the learner rounds its adapter to bf16, the engine does not",
    family: "policy",
    patch: at(
      "src/core/run/numerics.ts",
      '(rounded ? TYPE_OF_ROUNDED[rounded] : "f32")',
      'TYPE_OF_ROUNDED[rounded ?? "BF16"]',
    ),
    flags: ANY_REWARD,
  },
  {
    name: "Adam's moments rounded to bf16 in the checkpoint",
    family: "storage",
    patch: at(
      "native/learner/optimizer.py",
      '"adam": self._adam.state_dict(),',
      `"adam": (adam := self._adam.state_dict())
            | {
                "state": {
                    number: {name: one if name == "step" else one.bfloat16().float() for name, one in state.items()}
                    for number, state in adam["state"].items()
                }
            },`,
    ),
    flags: ["--learner-lifetime", "step", ...ANY_REWARD],
  },
  {
    name: "the groups of a step draw with the same random numbers",
    family: "engine",
    patch: at(
      "src/core/gather/gather.ts",
      "deriveSeed(options.seedName, options.step, scenario.id, index)",
      "deriveSeed(options.seedName, options.step, index)",
    ),
    flags: ANY_REWARD,
  },
];

export const unmet: readonly Fault[] = list.map((fault) => ({ ...fault, outside: "unmet" }));
