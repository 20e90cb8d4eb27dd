/** Options of making scenarios. Part of options.ts. */
import { declareOptions } from "../core/config/config.js";
import { inGroup, list, text, whole } from "../core/config/option.js";

const scenarioOptions = declareOptions({
  ...inGroup("Making scenarios", ["scenarios generate"], {
    documents: text("Folder of text and HTML files to ask about.", {
      accepts: "a path",
      defaultText: "none",
      first: ["scenarios generate"],
    }),
    inbox: text("Address of the person whose mail, sent or received, is searched or asked about.", {
      accepts: "an address",
      defaultText: { other: "none", "scenarios generate": "of each mail's people the one with the most mail" },
      commands: ["search", "read", "scenarios generate"],
    }),
    sql: text("SQLite database to ask about, opened read-only.", {
      accepts: "a path",
      defaultText: "none",
      first: ["scenarios generate"],
    }),
    about: text("What the questions should be about, in a sentence.", {
      defaultText: "whatever somebody would ask",
      first: ["scenarios generate"],
    }),
    perPiece: whole(1, 10, "Questions of one mail, part of a document, row or result at most.", { default: 2 }),
    tries: whole(1, 15, "Times that a question is answered with its evidence, and without; the majority decides.", {
      default: 3,
    }),
    logs: list("Logs of an agent: OpenTelemetry spans, Langfuse's observations, or OpenAI's chat and training files.", {
      accepts: "paths",
      commands: ["scenarios import"],
    }),
    mask: list("Personal data to replace by placeholders: all, or some of email, phone, card, iban, ip, key.", {
      accepts: "kinds",
      defaultText: "nothing is replaced",
      commands: ["scenarios import"],
    }),
    maskWords: list("Names or other words to replace too.", {
      accepts: "words",
      defaultText: "none",
      commands: ["scenarios import"],
    }),
    toolCalls: whole(1, 10_000, "Calls of MCP servers' tools at most, to see what there is.", { default: 100 }),
  }),
});

type Own = typeof scenarioOptions;
declare module "../core/config/config.js" {
  interface OptionTable extends Own {}
}
