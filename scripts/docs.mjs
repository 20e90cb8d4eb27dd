// `yarn docs`: writes the documents that are made from code.
import { readFileSync, writeFileSync } from "node:fs";
import { optionsPage } from "../dist/bench/docs/options-page.js";
// Options of the email task, which the page has too, behind the others.
import "../dist/src/hone/commands/email/email-options.js";
import { cardsTable, modelsByCardTable } from "../dist/bench/docs/cards.js";
import { guardsList } from "../dist/bench/docs/guards-list.js";

writeFileSync(new URL("../docs/options.md", import.meta.url), optionsPage());

/** Replaces what lies between two marks of a page. */
function write(page, name, table) {
  const file = new URL(`../docs/${page}`, import.meta.url);
  const marks = [`<!-- ${name}: written by \`yarn docs\` -->\n`, `<!-- end of ${name} -->`];
  const text = readFileSync(file, "utf8");
  const [before, after] = marks.map((mark) => text.indexOf(mark));
  writeFileSync(file, text.slice(0, before + marks[0].length) + table + text.slice(after));
}

write("memory.md", "cards", cardsTable());
write("trust.md", "guards", guardsList());
write("gpu.md", "models", modelsByCardTable());
