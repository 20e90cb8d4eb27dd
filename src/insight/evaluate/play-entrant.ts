/** One player's rollouts: on the engine, at an API, or by the task's script. */
import { ROLLOUTS_AT_ONCE } from "../../core/config/defaults.js";
import { isLocal } from "../../core/engine/engine.js";
import { gather } from "../../core/gather/gather.js";
import { RolloutThreads } from "../../core/gather/threads.js";
import type { PlayerSpec } from "../../core/rollout/player.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { evaluate } from "../../core/run/evaluation.js";
import { playAndGrade } from "../../core/train/grading.js";
import { refuse } from "../../core/train/guard.js";
import type { PlayResult } from "../../core/train/parts.js";
import { checkProbe, mismatchLimit } from "../../guards/mismatch.js";
import { costOf, type PriceTable, priceOf } from "../../judge/prices.js";
import { engineText } from "../../machine/compute.js";
import { EnginePolicy } from "../../machine/play/engine-policy.js";
import { limitsOf } from "../../machine/play/player-options.js";
import { openPlaying, rankOf } from "../../machine/play/playing-engine.js";
import type { Contestant, Effort, Result } from "../report/matrix.js";
import type { Conditions, Grading } from "./conditions.js";
import type { ApiEntrant, EngineEntrant, Entrant, EvalConfig } from "./entrants.js";

export interface Stage {
  readonly config: EvalConfig;
  readonly conditions: Conditions;
  readonly grading: Grading;
  readonly prices: PriceTable;
  readonly signal: AbortSignal;
  log(text: string): void;
  begin(entrant: Contestant, scenarios: number): void;
  rollout(entrant: Contestant, trajectory: Trajectory): void;
}

/** Plays all scenarios once. */
type Play = (
  signal: AbortSignal,
  onTrajectory: (trajectory: Trajectory) => void,
  onGroup: (group: readonly Trajectory[]) => void,
) => Promise<PlayResult>;

/** The same seeds for every player, so that they differ by their policy alone. */
const gathering = ({ conditions }: Stage) => ({
  seedName: `${conditions.settings.seed}/eval`,
  step: 0,
  scenarios: conditions.scenarios,
  groupSize: 1,
  have: [],
});

async function playWith(stage: Stage, entrant: Entrant, play: Play): Promise<Result> {
  const { signal, grading, conditions } = stage;
  stage.begin(entrant, conditions.scenarios.length);
  const started = performance.now();
  const all: Trajectory[] = [];
  const { graded, failures, unjudged } = await playAndGrade(signal, grading.grade, async (signal, onGroup) => {
    const played = await play(
      signal,
      (trajectory) => {
        all.push(trajectory);
        stage.rollout(entrant, trajectory);
      },
      onGroup,
    );
    // Figures over a part of the scenarios would be taken for figures over all.
    if (played.interrupted) signal.throwIfAborted();
    return played;
  });
  return {
    figures: evaluate(graded, failures, unjudged),
    effort: effortOf(entrant, all, stage.prices, (performance.now() - started) / 1000),
    outcomes: graded.map(({ scenario, reward: { success, reward }, end, turns, completionTokens }) => ({
      scenario: scenario.id,
      success,
      reward,
      end,
      turns,
      tokens: completionTokens,
    })),
  };
}

function effortOf(
  entrant: Pick<Entrant, "name" | "kind" | "of"> & { readonly settings?: { readonly model: string } },
  rollouts: readonly Pick<Trajectory, "promptTokens" | "completionTokens" | "turns">[],
  prices: PriceTable,
  seconds: number,
): Effort {
  const sum = (of: (one: (typeof rollouts)[number]) => number) => rollouts.reduce((total, one) => total + of(one), 0);
  const promptTokens = sum((one) => one.promptTokens);
  const completionTokens = sum((one) => one.completionTokens);
  const { name, settings } = entrant;
  // List prices are those of APIs: a local file may have the name of a model there.
  const price = prices[name] ?? (settings ? priceOf(settings.model, prices) : (prices[entrant.of] ?? null));
  // A server need not report the tokens of an answer.
  const billed = settings === undefined || rollouts.every(({ turns, promptTokens }) => turns === 0 || promptTokens > 0);
  const cost = price && billed ? costOf(price, promptTokens, completionTokens) : null;
  return { rollouts: rollouts.length, promptTokens, completionTokens, cost, seconds };
}

/** An API or the task's script. */
export function playElsewhere(stage: Stage, entrant: Exclude<Entrant, EngineEntrant>): Promise<Result> {
  const { config, conditions } = stage;
  const { settings, taskOptions, servers, scenarios } = conditions;
  const player: PlayerSpec =
    entrant.kind === "expert"
      ? { kind: "expert", mistakes: 0 }
      : { kind: "api", settings: (entrant as ApiEntrant).settings };
  return playWith(stage, entrant, (signal, onTrajectory, onGroup) =>
    gather({
      ...gathering(stage),
      settings: {
        task: settings.task,
        taskOptions,
        servers,
        player,
        limits: limitsOf({ ...config, ...settings }, undefined),
      },
      concurrency: Math.min(config.concurrency ?? ROLLOUTS_AT_ONCE.cpu, scenarios.length),
      maxExceptions: config.maxExceptions,
      signal,
      onTrajectory,
      onGroup,
      onFailure: ({ id, error }) => stage.log(`${entrant.title}: rollout ${id} failed: ${error}`),
      onNote: stage.log,
    }),
  );
}

/** A model's file with all players that use it. */
export interface OnEngine {
  readonly file: string;
  /** Tokens that it was trained with. */
  readonly context: number;
  readonly entrants: EngineEntrant[];
}

function highestRank(entrants: readonly EngineEntrant[]): number | undefined {
  const ranks = entrants.flatMap(({ adapter }) => (adapter === null ? [] : (rankOf(adapter.path) ?? 1)));
  return ranks.length === 0 ? undefined : Math.max(...ranks);
}

/** @param cuda whether this machine's engine computes on an NVIDIA GPU */
export async function openEngine(stage: Stage, { file: model, context, entrants }: OnEngine, cuda: boolean) {
  const { config, conditions, log, signal } = stage;
  const { settings, taskOptions, servers, scenarios } = conditions;
  const sequences = Math.min(config.concurrency ?? ROLLOUTS_AT_ONCE.cpu, scenarios.length);
  const contextPerSequence = Math.min(settings.context, context);
  const wanted = { model, sequences, contextPerSequence, adapterRank: highestRank(entrants) };
  const { engine, options } = await openPlaying(config, wanted, cuda, { log, signal });
  log(engineText(engine.info));
  if (isLocal(engine)) stage.grading.beside(engine);
  const threads = new RolloutThreads();
  return {
    close: async () => {
      stage.grading.beside(undefined);
      await threads.close();
      await engine.close();
    },
    play: async (entrant: EngineEntrant): Promise<Result> => {
      const { chat, title } = entrant;
      const sampling = { temperature: settings.temperature };
      const player = { kind: "engine", engine: options, sampling, chat, adapter: null } as const;
      const limits = limitsOf({ ...config, ...settings }, options);
      const policy = new EnginePolicy(engine, {
        settings: { task: settings.task, taskOptions, servers, player, limits },
        concurrency: options.sequences,
        threads,
        maxExceptions: config.maxExceptions,
        onFailure: ({ id, error }) => log(`${title}: rollout ${id} failed: ${error}`),
        releaseWeights: false,
        log,
      });
      const limit = Math.max(mismatchLimit(engine.info.weightType, engine.info.compute), entrant.highestMismatch);
      await policy.use(entrant.adapter);
      refuse(checkProbe(await policy.probe(), limit, `checkpoint ${entrant.name}`, "nothing was played with it"));
      return playWith(stage, entrant, (signal, onTrajectory, onGroup) =>
        policy.play({ ...gathering(stage), signal, onTrajectory, onGroup }),
      );
    },
  };
}
