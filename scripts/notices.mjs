// Writes THIRD-PARTY.md: what others made that is inside hone's packages, with its licence and copyright. Names, versions and
// texts come from the packages that are installed here. `--check` writes nothing and fails where the file differs.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);
const target = join(root, "THIRD-PARTY.md");

/** Packages of npm by where they end up. "Bundled" ones bring their licences as files. */
const COMPILED = [
  ["node-addon-api", "headers compiled into `hone_engine.node`"],
  ["better-sqlite3", "inside `@hone-rl/hone`, and compiled as `better_sqlite3-*.node`"],
];
const IN_THE_PAGE = "in the page of `hone view` (`dist/web`)";

function fail(line) {
  console.error(`hone: ${line}`);
  process.exit(1);
}

/** Packages that the page imports: their code is in its bundle. */
function packagesOfPage() {
  const folder = join(root, "web/src");
  const texts = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => /\.tsx?$/.test(path))
    .map((path) => readFileSync(join(folder, path), "utf8"));
  const names = texts.flatMap((text) => [...text.matchAll(/\bfrom "([a-z@][^"]*)"/g)].map(([, name]) => name));
  return [...new Set(names.map((name) => /^(@[^/]+\/)?[^/]+/.exec(name)[0]))].sort();
}

/** Folder of an installed package, whose package.json may not be exported. */
function folderOf(name) {
  for (const folder of require.resolve.paths(name)) {
    if (existsSync(join(folder, name, "package.json"))) return join(folder, name);
  }
  return fail(`${name} is not installed`);
}

/** Name, version, licence and copyright lines of a package, of which MIT alone is known here. */
function entryOf(name, use) {
  const folder = folderOf(name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  if (license !== "MIT") fail(`${name} is under ${license}: THIRD-PARTY.md needs its text (scripts/notices.mjs)`);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  return { name, version, use, copyright: copyrightOf(name, join(folder, file ?? "LICENSE")) };
}

function copyrightOf(name, file) {
  const lines = readFileSync(file, "utf8").split("\n");
  const found = lines.filter((line) => /^copyright/i.test(line.trim())).map((line) => line.trim());
  return found.length > 0 ? found.join("; ") : fail(`${file} of ${name} has no line of copyright`);
}

/** llama.cpp's headers and licence lie where the addon is compiled. */
function llama() {
  const folder = join(root, "build/llama");
  if (!existsSync(join(folder, "LICENSE"))) fail("build/llama is missing: run `node scripts/build-addon.mjs`");
  const text = readFileSync(join(folder, "CMakeLists.txt"), "utf8");
  const version = ["MAJOR", "MINOR", "PATCH"].map((part) => text.match(`LLAMA_VERSION_${part} (\\d+)`)?.[1]).join(".");
  const use =
    "headers compiled into `hone_engine.node`; its libraries are in node-llama-cpp's packages, which npm installs";
  return { name: "llama.cpp and ggml", version, use, copyright: copyrightOf("llama.cpp", join(folder, "LICENSE")) };
}

function sqliteVersion() {
  const header = readFileSync(join(folderOf("better-sqlite3"), "deps/sqlite3/sqlite3.h"), "utf8");
  return /#define SQLITE_VERSION\s+"([\d.]+)"/.exec(header)?.[1];
}

function mitText() {
  const text = readFileSync(join(folderOf("better-sqlite3"), "LICENSE"), "utf8");
  return text.slice(text.indexOf("Permission is hereby granted")).trim();
}

function text() {
  const entries = [
    llama(),
    ...COMPILED.map(([name, use]) => entryOf(name, use)),
    ...packagesOfPage().map((name) => entryOf(name, IN_THE_PAGE)),
  ];
  const llamaPackage = JSON.parse(readFileSync(join(folderOf("node-llama-cpp"), "package.json"), "utf8")).version;
  return `# What others made

hone is under the Apache License 2.0 (LICENSE). Its packages contain work of others, listed here. What npm and pip install
beside it comes with its own licences. This file is written by \`yarn notices\`.

## Under the MIT licence

| | version | where | |
| --- | --- | --- | --- |
${entries.map(({ name, version, use, copyright }) => `| ${name} | ${version} | ${use} | ${copyright} |`).join("\n")}

${mitText()}

## Under other terms

- **SQLite ${sqliteVersion()}**, in better-sqlite3: in the public domain.
- **libc++, libc++abi and libunwind** of LLVM, linked into the compiled files for Linux: Apache License 2.0 with LLVM
  exceptions, which ask for no notice in compiled form.
- **node-llama-cpp ${llamaPackage}** and the packages that it needs, inside \`@hone-rl/hone\`: each in a folder below
  \`node_modules/node-llama-cpp\` that names its licence, MIT, ISC or Blue Oak 1.0.0.

## Models

\`models/tiny\` was trained by hone's own recipe on text that hone generates, from initial weights of its own: it is
hone's, under the same licence. Models that \`hone models pull\` fetches have the licences of their makers, which
\`hone models\` shows.
`;
}

const wanted = text();
const current = existsSync(target) ? readFileSync(target, "utf8") : "";
if (process.argv.includes("--check")) {
  if (current !== wanted) fail("THIRD-PARTY.md is stale: run `yarn notices`");
} else if (current !== wanted) writeFileSync(target, wanted);
