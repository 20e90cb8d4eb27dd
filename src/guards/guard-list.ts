/**
 * The guards of a training step, in the order in which they look. To add one, write its check in a file beside this one, with
 * tests that plant the fault, and an entry here; docs/trust.md follows from the list (`yarn docs`).
 */
import { EngineOutOfMemory } from "../core/engine/errors.js";
import type { RunSettings } from "../core/run/settings.js";
import { drawsOf } from "../core/train/credit.js";
import { demanding, type Guard } from "../core/train/guard.js";
import { type AdapterReader, adapterGuard, askedGuard, checkRate } from "./asked.js";
import { checkBatch } from "./batch-check.js";
import { checkCreditedBy, checkCredits, checkMean } from "./credit-check.js";
import { checkDrawStatistics, checkDraws, checkSeeds, type Dealt, scenariosGuard } from "./draws.js";
import { checkEvaluated, checkPlayer } from "./evaluated.js";
import { checkResults, type GivenReader, givenGuard, type PromptOf, promptGuard } from "./given.js";
import { checkAdapterType, checkMismatch, checkProbe, mismatchNote, probeLimit } from "./mismatch.js";
import { checkPolicySlope } from "./policy-slope.js";
import { checkProgress } from "./progress.js";
import { type RenderedReader, type Renderer, renderedGuard } from "./rendered.js";
import { bestGuard, type StoreReader, storedGuard } from "./stored.js";

/** Those that need no more than a moment has. */
export const guards: readonly Guard[] = [
  {
    name: "results by the record",
    sees: "a tool's result of which the model was given another text than the tool returned",
    afterPlay: ({ group }) => demanding("drop these rollouts", () => checkResults(group)),
  },
  {
    name: "the adapter that was to play",
    sees: "rollouts, also of a validation, that another adapter played than the one whose result they count as",
    afterPlay: ({ group, adapter }) => demanding("drop these rollouts", () => checkPlayer(group, adapter)),
  },
  {
    name: "the engine's own account",
    sees: "the engine evaluated or drew other tokens than are recorded, with other log-probabilities, from another adapter's keys and values, or in another way than the step trains",
    afterPlay: ({ group, temperature }) => demanding("drop these rollouts", () => checkEvaluated(group, temperature)),
  },
  {
    name: "a group's draws",
    sees: "rollouts of a group that were not drawn independently of each other",
    afterPlay: ({ group }) => demanding("drop these rollouts", () => checkDraws(group)),
  },
  {
    name: "rewards and advantages by a second path",
    sees: "a reward or an advantage that belongs to another rollout, or is computed in another way",
    afterCredit: ({ groups, rewards, credited, options }) =>
      demanding("refuse", () => checkCredits(groups, rewards, credited, options)),
  },
  {
    name: "statistics of draws",
    sees: "tokens that are not drawn with the probabilities that are recorded",
    beforeUpdate: ({ groups, steps }) => {
      const before = steps.map(({ metrics }) => metrics?.draws ?? null);
      return demanding("drop these rollouts", () => checkDrawStatistics(before, drawsOf(groups)));
    },
  },
  {
    name: "learning rate by a second path",
    sees: "the learning rate of another step, or a schedule that begins again",
    beforeUpdate: ({ steps, learningRate, schedule }) =>
      demanding("refuse", () => checkRate(learningRate, steps.length - 1, schedule)),
  },
  {
    name: "the batch by a second path",
    sees: "ids, masks or log-probabilities in the learner's file that were not played, and a mean over another number of rollouts or tokens",
    afterBatch: ({ file, batch, groups, further, mean, ...how }) =>
      demanding("refuse", async () => checkMean(groups, further, mean) ?? (await checkBatch(file, batch, how))),
  },
  {
    name: "the adapter's numbers",
    sees: "a learner that computes with its adapter in another type than the engine plays it in",
    afterUpdate: ({ learnt, settings }) => demanding("refuse", () => checkAdapterType(learnt, settings)),
  },
  {
    name: "policy that played",
    sees: "an engine that plays an earlier adapter than the learner trains, or neither",
    afterUpdate: ({ learnt, checkpoint, earlier, lastUpdates }) =>
      demanding("drop these rollouts", () => checkPolicySlope(learnt, checkpoint, earlier, lastUpdates)),
  },
  {
    name: "distance of engine and learner",
    sees: "log-probabilities of engine and learner that importance weights cannot correct for",
    afterUpdate: ({ learnt, settings }) => demanding("refuse", () => checkMismatch(learnt, settings)),
  },
  {
    name: "distance of engine and learner (told)",
    sees: "a distance that is large from the first step on, or has grown since; the run goes on",
    afterUpdate: ({ learnt, before, settings }) => {
      const text = mismatchNote(learnt, before, settings.farMismatch);
      return text === undefined ? undefined : { demand: "note", text };
    },
  },
  {
    name: "a checkpoint that cannot be loaded",
    sees: "an adapter that the engine cannot load for another reason than a lack of memory",
    afterWaking: ({ loaded }) => {
      if (!("error" in loaded)) return undefined;
      const { error } = loaded;
      return { demand: error instanceof EngineOutOfMemory ? "refuse" : "take the commit back", error };
    },
  },
  {
    name: "a checkpoint's probe",
    sees: "an engine that plays another adapter than it was told to load",
    afterWaking: ({ loaded, settings, before, adapter, consequence }) =>
      demanding("take the commit back", () =>
        checkProbe("reading" in loaded ? loaded.reading : null, probeLimit(before, settings), adapter, consequence),
      ),
  },
  {
    name: "steps that teach nothing",
    sees: "several steps in a row without a difference between rewards, without a reward, or without a finite gradient",
    afterSettling: ({ steps, onlyReward }) => demanding("refuse", () => checkProgress(steps, onlyReward)),
  },
];

/** What guards look at beside the moments of a step. */
export interface GuardSources {
  readonly reader: GivenReader & RenderedReader;
  readonly render: Renderer;
  readonly store: StoreReader & AdapterReader;
  /** The run's. */
  readonly settings: RunSettings;
  /** What the task asks now, of a scenario; undefined where an agent asks. */
  readonly prompt: PromptOf | undefined;
  /** undefined where a program chooses what is played. */
  readonly dealt: Dealt | undefined;
}

/** A program that chooses what is played chooses its seeds too. */
const seedsGuard = (dealt: Dealt | undefined): Guard => ({
  name: "seeds",
  sees: "rollouts that were drawn with the seed of another scenario, index or step",
  afterPlay: ({ group, seedName, step }) =>
    dealt && demanding("drop these rollouts", () => checkSeeds(group, seedName, step)),
});

/** A program gives rewards of its own where it chooses what is played. */
const creditedByGuard = (settings: RunSettings, program: boolean): Guard => ({
  name: "rewards and advantages, by the run's options",
  sees: "advantages by another estimator or floor, rollouts that are masked otherwise, or rewards that are not the task's, than the run's options say",
  afterCredit: ({ credited, options }) =>
    demanding("refuse", () => checkCreditedBy(credited, options, settings, program)),
});

/** The guards of a run. */
export const guardsOf = ({ reader, render, prompt, store, settings, dealt }: GuardSources): readonly Guard[] => [
  promptGuard(prompt),
  givenGuard(reader),
  renderedGuard(reader, render),
  ...guards,
  seedsGuard(dealt),
  scenariosGuard(dealt),
  creditedByGuard(settings, dealt === undefined),
  askedGuard(settings),
  storedGuard(store),
  bestGuard(store),
  adapterGuard(store, settings),
];

/**
 * Those of the learner (native/learner/: update_check.py, rehearsal.py, in_use.py, told.py, written_check.py), which refuse the update:
 * the step is not taken.
 */
export const learnerGuards: readonly Pick<Guard, "name" | "sees">[] = [
  {
    name: "what was asked, by a second path",
    sees: "a batch that is trained at another temperature than it was played at, from another adapter than the run stands at, or with another scale of it",
  },
  {
    name: "rows by a second path",
    sees: "rows of an update that lose or repeat a trajectory, or have other ids, positions or predecessors than its own",
  },
  {
    name: "a small step computed plainly",
    sees: "another loss or gradient than the objective has: layers, masks, positions, temperature, importance weights, bounds, KL, divisors, the scale of f16",
  },
  {
    name: "the adapter in use",
    sees: "an update that computes with another adapter than the checkpoint in force has, and that the engine plays, and a policy that is the base model though its adapter is not 0",
  },
  {
    name: "log-probabilities by size",
    sees: "log-probabilities of the engine that are wrong for unlikely tokens alone, are one value for many tokens, are rounded, or are of another distribution than the one that was drawn from",
  },
  {
    name: "tokens by their random numbers",
    sees: "tokens that the random numbers of their rollout's seed do not give under the learner's distribution: numbers of other positions or seeds, a sampler that never draws from a part of it",
  },
  {
    name: "tokens of the updates",
    sees: "tokens whose gradient was never added, or added twice, that weigh in the mean what another rollout's should, a π_old that changes between the updates of a step, and updates that do not move the policy from it",
  },
  {
    name: "a resume, read again",
    sees: "a learner that goes on with other weights, moments, counts or random numbers than the checkpoint has",
  },
  {
    name: "what an update trains",
    sees: "a parameter that is not trained, dropout, or gradients that an earlier update left",
  },
  {
    name: "Adam by a second path",
    sees: "an update that its gradient, moments and learning rate do not give, and moments that are not those of the update or the checkpoint before",
  },
  { name: "a checkpoint's files, read back", sees: "files that do not have what was trained" },
];
