/** `yarn hone serve`: serves a run's model and its base model behind an OpenAI-compatible API. */

import { once } from "node:events";
import { ROLLOUTS_AT_ONCE } from "../../core/config/defaults.js";
import { UsageError } from "../../core/util/errors.js";
import { isCatalogueName, nameOf, readReference } from "../../machine/models/reference.js";
import { ServedModel } from "../../serve/model.js";
import { openEndpoint } from "../../serve/server.js";
import { defineCommand } from "../command.js";
import { openSubject } from "../play/subject.js";

/** Default port. */
const PORT = 8000;

/** Names accepted from clients: the first is the main one, the others are aliases. A run may be called base too. */
const namesOfRun = (run: string, checkpoints: readonly string[]) =>
  [...new Set(checkpoints.map((one) => ([run, one].includes("base") ? one : run)))] as [string, ...string[]];

/** A path or a repository has a short name before it; those of the catalogue are short. */
function namesOf(reference: string): [string, ...string[]] {
  const short = isCatalogueName(reference) ? reference : nameOf(readReference(reference, "f16"));
  return short === reference ? [reference] : [short, reference];
}

export const serveCommand = defineCommand({
  name: "serve",
  positional: "subject",
  async run(config, io) {
    const { checkpoint, port = PORT, apiKey } = config;
    if (checkpoint !== undefined && checkpoint.length > 1) {
      throw new UsageError("--checkpoint: one is served, with base beside it; give one");
    }
    const subject = await openSubject(config, {
      given: io.given,
      checkpoints: checkpoint,
      withBase: true,
      sequences: config.concurrency ?? ROLLOUTS_AT_ONCE.cpu,
      log: io.log,
      signal: io.signal,
    });
    try {
      const served = subject.models.map((open) => ({
        ...open,
        names: subject.run === undefined ? namesOf(open.names[0]) : namesOfRun(subject.run, open.names),
      }));
      const models = served.map(({ names, engine, chat }) => {
        const model = new ServedModel(names, engine, chat);
        model.onNote = io.log;
        return model;
      });
      const endpoint = await openEndpoint({ port, apiKey, models });
      for (const { names, title } of served) io.log(`model ${names.join(", ")}: ${title}`);
      io.log(`${endpoint.url}  (Ctrl-C ends it)`);
      if (!io.signal.aborted) await once(io.signal, "abort");
      await endpoint.close();
      return { url: endpoint.url, models: served.flatMap(({ names }) => names) };
    } finally {
      await subject.close();
    }
  },
});
