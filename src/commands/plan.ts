/** `yarn hone plan`: a step's time and each card's memory before a run, by arithmetic, and what to add next. */
import { defineCommand } from "../config/index.js";
import { showModel } from "../models/index.js";
import { isCpu, planStep, stepPlanJson, stepPlanText } from "../plan/index.js";
import { hone, UnfinishedError, UsageError } from "../util/index.js";

export const planCommand = defineCommand({
  name: "plan",
  required: ["model", "cards"],
  positional: "model",
  configFile: false,
  async run(config, io) {
    const { model, weights, cards } = config;
    const own = await showModel(model, config);
    // As a run has them on these cards: safetensors are converted to bf16 there.
    const converted = weights === undefined && own.repository !== null && !isCpu(cards);
    const { shape } = converted ? await showModel(model, { ...config, weights: "bf16" }) : own;
    if (!shape) {
      throw new UsageError(
        `--model ${model}: its shape is not known, since it is not on this machine and not in \`${hone("models")}\`; \`${hone("models")} pull ${model}\` downloads it`,
      );
    }
    const engine = io.given.engine === undefined ? undefined : config.engine;
    const plan = planStep(shape, { ...config, engine });
    io.log(stepPlanText(model, plan));
    const result = stepPlanJson(model, plan);
    if (!plan.best)
      throw new UnfinishedError(`plan: ${model} does not fit on ${cards} in any way that hone has`, result);
    return result;
  },
});
