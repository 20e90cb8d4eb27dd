/**
 * A fourth list, by an author who had read neither guards nor earlier lists, nor docs/trust.md: he had read the core, the engine, the
 * learner but for its checks, the trainer and the email task. One fault for each part of a step, in the order in which a step has them. A
 * tenth was one of unmet.ts.
 */
import { ANY_REWARD, at, type Fault } from "./fault.js";

/** Rollouts of a group differ more often. */
const WARM = ["--temperature", "1.3"];

const list: readonly Omit<Fault, "outside">[] = [
  {
    name: "a step's scenarios begin one behind those of the step before, not a whole step",
    family: "storage",
    akin: true,
    patch: at(
      "src/trainer/sampler.ts",
      "next: { epoch, at: end }",
      "next: { epoch, at: step % this.stepsPerEpoch === 0 ? order.length : at + 1 }",
    ),
    flags: ANY_REWARD,
    groups: 3,
  },
  {
    name: "the model reads the first 200 characters of a tool's result",
    family: "tokens",
    akin: true,
    patch: at("src/core/rollout/calls.ts", "  return text;\n", "  return text.slice(0, 200);\n"),
    flags: ANY_REWARD,
  },
  {
    name: "the random number of a token is that of its position in the turn, so that turns of a rollout share them",
    family: "engine",
    akin: true,
    patch: at(
      "native/engine/row_sampler.cc",
      "row.drawn = drawnFor(request, row.sequence->tokens.size(), sampler,",
      "row.drawn = drawnFor(request, row.sequence->turn->result.tokens.size(), sampler,",
    ),
    flags: ANY_REWARD,
  },
  {
    name: "log-probabilities below -2 are recorded as -2",
    family: "log-probabilities",
    akin: true,
    patch: at(
      "src/core/rollout/sample.ts",
      "transcript.generated(turn);",
      "transcript.generated({ ...turn, logprobs: turn.logprobs.map((logprob) => Math.max(logprob, -2)) });",
    ),
    flags: [...ANY_REWARD, ...WARM],
    groups: 4,
  },
  {
    name: "of a group's rollouts with the same tokens the batch has the first alone",
    family: "learner",
    patch: at(
      "src/core/learn/batch.ts",
      ".filter(({ sequences }) => sequences.length > 0);",
      `.filter(
        ({ sequences: [first] }, i, all) =>
          first && all.findIndex(({ sequences: [one] }) => String(one?.ids) === String(first.ids)) === i,
      );`,
    ),
    flags: ANY_REWARD,
    groups: 4,
  },
  {
    name: "where rollouts part, the last of the tokens that a position predicts has the gradient of the first",
    family: "learner",
    akin: true,
    patch: at(
      "native/learner/head.py",
      "return firsts, (sources[1:] == sources[:-1]).nonzero()[:, 0] + 1",
      "return firsts, (sources[1:] == sources[:-1]).nonzero()[:, 0]",
    ),
    flags: [...ANY_REWARD, ...WARM],
    groups: 4,
  },
  {
    name: "the adapter's file for the engine has f16",
    family: "policy",
    akin: true,
    patch: at(
      "native/learner/gguf_adapter.py",
      'weight = weight.detach().to("cpu", torch.float32)',
      'weight = weight.detach().to("cpu", torch.float16)',
    ),
    flags: ANY_REWARD,
  },
  {
    name: "a learner that goes on from a checkpoint is not told the run's numbers of Adam",
    family: "learner",
    patch: at(
      "src/trainer/updater.ts",
      "optimizer: adamOf(fitted.shape.parameters),",
      "...(from === undefined ? { optimizer: adamOf(fitted.shape.parameters) } : {}),",
    ),
    flags: ANY_REWARD,
    resumed: true,
  },
  {
    name: "the recorded mean of the training reward leaves out groups with equal rewards",
    family: "storage",
    akin: true,
    patch: at(
      "src/core/train/metrics.ts",
      ".filter(({ rewarded }) => rewarded)",
      ".filter(({ hasSignal }) => hasSignal)",
    ),
    groups: 4,
  },
];

export const fourth: readonly Fault[] = list.map((one) => ({ ...one, outside: "fourth" }));
