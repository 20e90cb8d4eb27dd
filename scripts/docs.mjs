// `yarn docs`: writes the documents that are made from code.
import { readFileSync, writeFileSync } from "node:fs";
// With the commands come the options that those of tasks have of their own.
import "../dist/src/commands/index.js";
import { optionsTable } from "../dist/src/config/config.js";
import { cardsTable } from "../dist/src/plan/cards.js";

writeFileSync(new URL("../docs/options.md", import.meta.url), optionsTable());

const memory = new URL("../docs/memory.md", import.meta.url);
const marks = ["<!-- cards: written by `yarn docs` -->\n", "<!-- end of cards -->"];
const text = readFileSync(memory, "utf8");
const [before, after] = marks.map((mark) => text.indexOf(mark));
writeFileSync(memory, text.slice(0, before + marks[0].length) + cardsTable() + text.slice(after));
