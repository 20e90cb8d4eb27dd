/** Options of making scenarios. Part of options.ts. */
import { inGroup, text, whole } from "./option.js";

export const scenarioOptions = {
  ...inGroup("Making scenarios", ["scenarios generate"], {
    documents: text("Folder of text files (and HTML) to ask about, with all folders below it.", {
      accepts: "a path",
      defaultText: "none",
      first: ["scenarios generate"],
    }),
    inbox: text("Address of the person whose mail, sent or received, is searched or asked about.", {
      accepts: "an address",
      defaultText: { other: "none", "scenarios generate": "of each mail's people the one with the most mail" },
      commands: ["search", "read", "scenarios generate"],
    }),
    sql: text("SQLite database whose rows are asked about; it is opened read-only.", {
      accepts: "a path",
      defaultText: "none",
      first: ["scenarios generate"],
    }),
    about: text("What the questions should be about, in a sentence for the model that writes them.", {
      defaultText: "whatever somebody would ask",
      first: ["scenarios generate"],
    }),
    perPiece: whole(1, 10, "Questions of one mail, part of a document, row or result at most.", { default: 2 }),
    tries: whole(
      1,
      15,
      "Times that a question is answered with its evidence, and without it; a majority decides, so an odd number.",
      { default: 3 },
    ),
    toolCalls: whole(1, 10_000, "Calls of MCP servers' tools at most, to see what there is.", { default: 100 }),
  }),
};
