/**
 * `yarn pictures`: makes the documents' pictures of the page and of the terminal again, from a training of the tiny model in
 * build/pictures, which is kept. It needs Chromium and util-linux's `script`.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type Browser, chromium } from "playwright-core";
import { HoneError } from "../src/core/util/errors.js";
import { packageRoot } from "../src/core/util/paths.js";

const folder = join(packageRoot, "build/pictures");
const cli = join(packageRoot, "dist/src/cli.js");
const docs = (name: string) => join(packageRoot, "docs", name);
/** In the folder, whose home is then the default one: commands on the page name no other. */
const { HONE_HOME: _, ...env } = process.env;
const started = { cwd: folder, env, stdio: "inherit" } as const;

function hone(...args: string[]): void {
  const { status } = spawnSync(process.execPath, [cli, ...args], started);
  if (status !== 0) throw new HoneError(`hone ${args.join(" ")} ended with ${status}`);
}

/** What a terminal shows after each piece of this output, of hone's own codes: the line's start, erase it, one line up. */
function* screens(output: string): Generator<string> {
  const lines: string[] = [];
  let at = 0;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is read
  for (const [piece] of output.matchAll(/\r\n|\n|\r|\u001b\[2K|\u001b\[1A|[^\r\n\u001b]+/g)) {
    if (piece.endsWith("\n")) at++;
    else if (piece === "\u001b[1A") at--;
    else if (piece === "\u001b[2K") lines.splice(at);
    else if (piece !== "\r") lines[at] = (lines[at] ?? "") + piece;
    yield lines.join("\n");
  }
}

const TRAINED = [
  "--model",
  "tiny",
  "--steps",
  "10",
  "--groups-per-step",
  "6",
  "--group-size",
  "6",
  "--validate-every",
  "5",
];
const record = join(folder, "terminal.txt");

/** Trains on a terminal of 80 columns, which is recorded. */
function train(): void {
  hone("build-db", "--mailboxes", "40");
  const command = `stty cols 80; ${[process.execPath, cli, "train", ...TRAINED].join(" ")}`;
  const { status } = spawnSync("script", ["-qefc", command, record], started);
  if (status !== 0) throw new HoneError(`script -qefc '${command}' ended with ${status}`);
}

/** In the middle of the training. */
async function terminal(browser: Browser): Promise<void> {
  const seen = [...screens(readFileSync(record, "utf8"))].findLast((text) =>
    /^step 4\/10 update[\s\S]*tok\/s/m.test(text),
  );
  if (seen === undefined)
    throw new HoneError(`${record} has no update of step 4; remove ${folder}, and run this again`);
  const page = await browser.newPage({ viewport: { width: 760, height: 300 } });
  await page.setContent(
    `<pre style="margin:0;padding:16px 18px;width:max-content;background:#14171a;color:#e5e7e9;font:14px/1.45 'DejaVu Sans Mono',monospace"></pre>`,
  );
  const text = `$ yarn train ${TRAINED.join(" ")}\n${seen.slice(seen.search(/^n: rollouts/m))}`;
  await page.locator("pre").evaluate((element, shown) => {
    element.textContent = shown;
  }, text);
  await page.locator("pre").screenshot({ path: docs("terminal.png") });
}

async function overview(browser: Browser): Promise<void> {
  const report = join(folder, "report.html");
  hone("report", "tiny", "--out", report);
  const width = 1180;
  const page = await browser.newPage({ viewport: { width, height: 900 } });
  await page.goto(pathToFileURL(report).href);
  // Down to the first of what is folded.
  const folded = await page.locator(".diagnostics summary").first().boundingBox();
  if (folded === null) throw new HoneError(`${report} shows no diagnostics`);
  await page.screenshot({ path: docs("page.png"), clip: { x: 0, y: 0, width, height: folded.y + folded.height } });
}

mkdirSync(folder, { recursive: true });
const executablePath = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
if (executablePath === undefined) throw new HoneError("there is no Chromium; `bash scripts/chromium.sh` installs it");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  if (!existsSync(record)) train();
  await overview(browser);
  await terminal(browser);
} finally {
  await browser.close();
}
