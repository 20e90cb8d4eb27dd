/** `yarn hone scenarios review`: a page in the browser on which a person keeps, drops and edits scenarios. */

import { once } from "node:events";
import { serveReview } from "../../insight/view/review-server.js";
import { defineCommand } from "../command.js";
import { reviewed } from "../review.js";

export const reviewCommand = defineCommand({
  name: "scenarios review",
  required: ["scenarios"],
  positional: "scenarios",
  async run({ scenarios, port }, io) {
    const source = reviewed(scenarios);
    const server = await serveReview(source, port ?? 0);
    io.log(`${source.file}: ${server.url}  (Ctrl-C ends it; every decision is written at once)`);
    if (!io.signal.aborted) await once(io.signal, "abort");
    await server.close();
    const { kept, dropped } = source.read();
    return { file: source.file, url: server.url, kept: kept.length, dropped: dropped.length };
  },
});
