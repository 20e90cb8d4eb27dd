/** A scenario for each framework: its program plays, and is worth something that differs between rollouts. */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { defineTask, type Scenario } from "@hone-rl/hone";
import { type Framework, frameworks, IN_PROCESS, isPlaced, startOf } from "./frameworks.js";
import type { Installed } from "./install.js";

const { FRAMEWORK_PROGRAMS: folder = "", FRAMEWORK_PYTHONS: pythons = "{}" } = process.env;
const interpreters = JSON.parse(pythons) as Installed["pythons"];

/** The programs ask the model alone: nobody is sent traces or statistics. */
const env = {
  ...{ OPENAI_AGENTS_DISABLE_TRACING: "1", MASTRA_TELEMETRY_DISABLED: "1", DO_NOT_TRACK: "1" },
  ...{ HAYSTACK_TELEMETRY_ENABLED: "False", CREWAI_DISABLE_TELEMETRY: "true", LITELLM_LOCAL_MODEL_COST_MAP: "True" },
};

export const question = "When is the deadline of the project Falcon?";

const worth = (said: string) => said.length / 1000;

export default defineTask<Scenario>({
  name: "frameworks",
  scenarios: () => [
    ...frameworks
      .filter((framework) => isPlaced(framework, folder))
      .map(({ name }) => ({ id: name, split: "train" as const, question })),
    { id: "test", split: "test", question },
  ],
  rollout: async ({ scenario, model, run, signal }) => {
    const framework = frameworks.find(({ name }) => name === scenario.id) ?? (frameworks[0] as Framework);
    const start = startOf(framework);
    const file = join(folder, start);
    if (start === IN_PROCESS) {
      const { play } = (await import(pathToFileURL(file).href)) as { play: (about: object) => Promise<string> };
      return worth(await play({ model, question, signal }));
    }
    const interpreter = start.endsWith(".py") ? interpreters[framework.python ?? "python"] : process.execPath;
    return worth((await run(interpreter, [file, question], { env, cwd: folder })).stdout);
  },
});
