/** The options `--engine` to `--engine-memory`: which engine plays, and whether they fit together. */
import type { Config } from "../../core/config/config.js";
import type { EngineOptions, OwnServerOptions, PolicyEngine } from "../../core/engine/engine.js";
import { UsageError } from "../../core/util/errors.js";
import type { MachineChoice } from "../../engine/engine-options.js";

export type EngineChoice = MachineChoice &
  Pick<Config, "engine" | "engineUrl" | "engineAdapters" | "enginePython" | "engineMemory" | "home" | "python"> &
  Partial<Pick<Config, "torchIndex" | "releaseWeights" | "offForm">>;

export interface WantedEngine {
  readonly model: string;
  readonly sequences: number;
  readonly contextPerSequence: number;
  /** By default the engine chooses. */
  readonly lanes?: number | undefined;
  /** Rank of the adapters that will be loaded; undefined where none will be. */
  readonly adapterRank: number | undefined;
  /** What hone's own server does while the learner computes; by default nothing is learnt. */
  readonly rests?: OwnServerOptions["rests"];
  /** Of hone's own server; default in `--home`. */
  readonly logFile?: string;
}

export interface PlayingEngine {
  readonly engine: PolicyEngine;
  /** What other threads load it by. */
  readonly options: EngineOptions;
}

const firstGiven = (values: Readonly<Record<string, unknown>>) =>
  Object.entries(values).find(([, value]) => Boolean(value))?.[0];

/** @throws UsageError for addresses that are none, and for options of one engine given to the other */
export function checkEngineChoice({
  engine,
  decoder,
  engineUrl,
  engineAdapters,
  enginePython,
  releaseWeights,
  offForm,
}: EngineChoice): void {
  if (engine !== "vllm") {
    const ofServers = {
      "--engine-url": engineUrl,
      "--engine-adapters": engineAdapters,
      "--engine-python": enginePython,
    };
    const given = firstGiven(ofServers);
    if (given) throw new UsageError(`${given} is for --engine vllm; give that too, or leave ${given} out`);
    return;
  }
  const ofThisProcess = {
    "--decoder own": decoder === "own",
    "--release-weights": releaseWeights,
    "--off-form prevent": offForm === "prevent",
  };
  const alone = firstGiven(ofThisProcess);
  if (alone) throw new UsageError(`${alone} is for --engine llama.cpp; leave it out with vllm`);
  if (engineUrl && enginePython)
    throw new UsageError("--engine-python is for a server that hone starts; leave it out with --engine-url");
  const origins = (engineUrl ?? []).map((url) => {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (parsed?.protocol === "http:" && parsed.href === `${parsed.origin}/`) return parsed.origin;
    throw new UsageError(`--engine-url ${url}: give the address of a vLLM server alone, as http://127.0.0.1:8000`);
  });
  const twice = origins.find((one, i) => origins.indexOf(one) < i);
  if (twice) throw new UsageError(`--engine-url ${twice} is there twice; name each server once`);
}
