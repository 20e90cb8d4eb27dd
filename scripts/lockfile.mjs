// Takes download addresses out of yarn.lock (part of `yarn format`): version and checksum stay, and packages come from
// whatever registry the user has configured.
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("../yarn.lock", import.meta.url);
const text = readFileSync(file, "utf8");
const without = text.replace(/^ {2}resolved .*\n/gm, "");
if (without !== text) writeFileSync(file, without);
