/** The options of an evaluation. */
import type { Config, OptionName } from "../config/index.js";
import { mcpOptions } from "../mcp/index.js";
import { modelOptions } from "../models/index.js";
import { judgeAccessOptions, judgeOptions } from "../reward/index.js";
import { chatOptions } from "../rollout/index.js";
import { taskOptionNames } from "../tasks/index.js";
import { playingOptions } from "../train/index.js";

/** Settings of a run that an evaluation may override. */
export const changeable = [
  "model",
  "weights",
  "task",
  "seed",
  "temperature",
  "context",
  "maxTurns",
  "maxTokens",
  "onToolError",
  ...chatOptions,
  ...mcpOptions,
  "accuracy",
  "judgeUrl",
  ...judgeOptions,
] as const satisfies readonly OptionName[];

export const evalOptions = [
  ...taskOptionNames,
  "project",
  "run",
  "checkpoint",
  "versus",
  "agentKey",
  "prices",
  "fresh",
  "split",
  "n",
  "out",
  "page",
  ...changeable,
  ...modelOptions.filter((name) => name !== "weights"),
  ...playingOptions,
  ...judgeAccessOptions,
] as const satisfies readonly OptionName[];

export type EvalConfig = Pick<Config, (typeof evalOptions)[number]>;
