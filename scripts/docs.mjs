// `yarn docs`: writes the documents that are made from code.
import { writeFileSync } from "node:fs";
import { optionsTable } from "../dist/src/config/config.js";

writeFileSync(new URL("../docs/options.md", import.meta.url), optionsTable());
