/** `yarn hone chat`: a person talks to a run's model, which has the task's tools. */

import { openSession } from "../../chat/open-session.js";
import { sizedDefault } from "../../core/config/config.js";
import { isLocal } from "../../core/engine/engine.js";
import type { Scenario } from "../../core/task/task.js";
import { UsageError } from "../../core/util/errors.js";
import { clock } from "../../core/util/text.js";
import { chooseScenarios } from "../../insight/rollouts-file.js";
import { turnSecondsOf } from "../../machine/play/player-options.js";
import { loadTask, scenariosOf } from "../../scenarios/load.js";
import { givenForTask, recordedForTask, taskOptionsOf } from "../../scenarios/task-options.js";
import { defineCommand } from "../command.js";
import { chat, type Speaker } from "../play/chat.js";
import { openSubject } from "../play/subject.js";
import { openTerminal } from "./terminal.js";

export const chatCommand = defineCommand({
  name: "chat",
  positional: "subject",
  async run(config, io) {
    const { checkpoint, compare, seed, topK, topP, minP } = config;
    if (checkpoint && compare)
      throw new UsageError("--checkpoint and --compare both say who answers; give one of them");
    if (checkpoint && checkpoint.length > 1) {
      throw new UsageError(`--checkpoint: one answers; for two side by side give --compare ${checkpoint.join(",")}`);
    }
    const subject = await openSubject(config, {
      given: io.given,
      checkpoints: compare ?? checkpoint,
      sequences: 1,
      log: io.log,
      signal: io.signal,
    });
    try {
      const { settings, models } = subject;
      // Options given on the command line take precedence over the run's.
      const ofRun = <T>(name: "task" | "seed", value: T, recorded: T | undefined) =>
        io.given[name] === undefined ? (recorded ?? value) : value;
      const task = await loadTask(ofRun("task", config.task, settings?.task), config.taskTimeout);
      const options = taskOptionsOf(
        task,
        { ...config, seed: ofRun("seed", seed, settings?.seed) },
        recordedForTask(task, settings?.set ?? {}),
        givenForTask(io.given),
      );
      const choice = { split: config.split, scenario: config.scenario, n: 1, seed };
      const [scenario] = chooseScenarios(await scenariosOf(task, options), choice) as [Scenario];
      const temperature = config.temperature ?? settings?.temperature ?? 1;
      const sampling = { temperature, topK, topP, minP, seed };
      const speakers = models.map(
        ({ names, engine, chat }): Speaker => ({
          name: names.join(", "),
          open: (opening) => openSession(engine, chat, opening, sampling),
        }),
      );
      for (const { title } of models) io.log(title);
      const env = await task.open(options);
      const terminal = openTerminal(io);
      try {
        const said = await chat({
          task,
          scenario,
          env,
          speakers,
          terminal,
          useColours: io.stream.isTTY === true,
          signal: io.signal,
          writing: () => {
            const begun = performance.now();
            io.progress.update(() => `writing  ${clock((performance.now() - begun) / 1000)}`);
            return () => io.progress.clear();
          },
          limits: {
            maxTurns: config.maxTurns,
            maxTokens:
              config.maxTokens ??
              settings?.maxTokens ??
              sizedDefault("maxTokens", models[0]?.engine.info.parameters ?? 0),
            turnSeconds: turnSecondsOf(
              config,
              models.every(({ engine }) => isLocal(engine)),
            ),
            toolSeconds: config.toolTimeout,
          },
        });
        return { scenario: scenario.id, conversations: said };
      } finally {
        terminal.close();
        await task.close(env);
      }
    } finally {
      await subject.close();
    }
  },
});
