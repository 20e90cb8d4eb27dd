/** README, CONTRIBUTING and docs/: lines that would be accepted, links that lead somewhere. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { flagOf, optionNames, options } from "../../src/core/config/config.js";
import { stepMetricsRow } from "../../src/core/train/metrics.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadCommands } from "../../src/hone/commands/commands.js";
import { blocksOf, blocksOfAll, commandsOf, pages, textOf } from "./blocks.js";
import { checkLine } from "./parse.js";

const commands = await loadCommands();

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

describe("a block of code", () => {
  it.each(pages)("of %s says how it is tested", (page) => {
    expect(() => blocksOf(page)).not.toThrow();
  });

  it.each([
    "```\nyarn hone\n```",
    "```sh\nyarn hone\n```",
    "```sh maybe\n```",
    "```ts\n```",
    "```sh tested-by=no.ts\n```",
    "```text\n",
  ])("that does not say it is found: %j", (text) => {
    expect(() => blocksOf("page.md", `# Page\n\n${text}\n`)).toThrow("page.md:3: ");
  });

  it.each(blocksOfAll("tested-by").map(({ page, line, name }) => [`${page}:${line}`, name]))(
    "%s is run by %s, which reads it",
    (at, name) => {
      const test = readFileSync(join(packageRoot, name), "utf8");
      expect(test).toContain(at.split(":")[0]);
      expect(test).toContain("blocksOf");
    },
  );
});

describe("a command line", () => {
  const lines = (["run", "slow", "parsed", "tested-by"] as const).flatMap((treatment) =>
    blocksOfAll(treatment).flatMap((block) => commandsOf(block).map((line) => [`${block.page}:${block.line}`, line])),
  );

  it.each(lines)("%s: %s would be accepted", async (_, line) => {
    await checkLine(line as string);
  });

  it.each([
    ["yarn trian --steps 2", "no such script"],
    ["yarn hone trian --steps 2", "no command trian"],
    ["yarn train --step 2", "no option step"],
    ["yarn train --steps two", "--steps"],
    ["yarn hone judge --json", "needs file"],
    ["yarn train --gpu cude", "--gpu"],
    ["yarn hone help matrics", "no command matrics"],
    ["yarn bench --quickly", "has no --quickly"],
    ["npx --yes yarn@1.0.0 test", "is not yarn@"],
    ["npx --no hone rollout", "npx is no program"],
    ["node dist/bench/judge.js", "there is no bench/judge.ts"],
    ["pip install -r native/learner/needs.txt", "there is no"],
    ["brew install hone", "no program"],
  ])("%s is refused", async (line, reason) => {
    await expect(checkLine(line)).rejects.toThrow(reason);
  });
});

describe("programs of the pages", () => {
  it("have no errors of type", () => {
    const folder = mkdtempSync(join(tmpdir(), "hone-docs-types-"));
    folders.push(folder);
    const programs = blocksOfAll("file");
    expect(programs.length).toBeGreaterThan(2);
    const files = programs.map(({ page, name, text }) => {
      const file = `${page.replaceAll(/\W/g, "-")}-${name}`;
      writeFileSync(join(folder, file), `${text}\n`);
      return file;
    });
    const compilerOptions = {
      module: "nodenext",
      target: "es2022",
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      paths: {
        "@hone-rl/hone": [join(packageRoot, "dist/src/index.d.ts")],
        ai: [join(packageRoot, "node_modules/ai/dist/index.d.ts")],
      },
      typeRoots: [join(packageRoot, "node_modules/@types")],
      types: ["node"],
    };
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }\n');
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    const tsc = join(packageRoot, "node_modules/typescript/bin/tsc");
    const { stdout } = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
    expect(stdout).toBe("");
  });
});

describe("options", () => {
  const positional = new Set(commands.map((command) => command.positional));
  const named = optionNames.filter((name) => !positional.has(name));
  const prose = pages
    .filter((page) => page !== "docs/options.md" && page !== "CONTRIBUTING.md")
    .map(textOf)
    .join("\n");

  it.each(named)("%s has somebody who sets it, on a page that is written by hand", (name) => {
    const flag = flagOf(name);
    const forms = [flag, `--no-${flag.slice(2)}`, options[name].env];
    expect(forms.some((form) => new RegExp(`(?<![\\w-])${form}(?![\\w-])`).test(prose))).toBe(true);
  });
});

it.each(pages)("%s has no line of more than 200 characters but rows of tables", (page) => {
  const long = textOf(page)
    .split("\n")
    .filter((line) => line.length > 200 && !line.startsWith("|"));
  expect(long).toEqual([]);
});

describe("links", () => {
  const anchorsOf = (page: string) =>
    [...textOf(page).matchAll(/^#{1,6} (.*)$/gm)].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, "")
        .replaceAll(" ", "-"),
    );

  it.each(pages)("of %s lead to files and headings that exist", (page) => {
    const links = [...textOf(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link as string);
    for (const link of links.filter((one) => !/^https?:/.test(one))) {
      const [path = "", anchor] = link.split("#");
      const target = path === "" ? page : join(dirname(page), path);
      expect([link, existsSync(join(packageRoot, target))]).toEqual([link, true]);
      if (anchor !== undefined) expect(anchorsOf(target)).toContain(anchor);
    }
  });

  it("of README reach every page", () => {
    const linked = [...textOf("README.md").matchAll(/\]\((docs\/[\w-]+\.md)/g)].map(([, path]) => path);
    expect(pages.filter((page) => page.startsWith("docs/") && !linked.includes(page))).toEqual([]);
  });
});

describe("docs/training.md", () => {
  it("lists every field of metrics.jsonl, and no other", () => {
    const timing = ["seconds", "checks", "reused", "memory", "judge", "numerics"];
    const fields = ["step", "checkpoint", ...Object.keys(stepMetricsRow([], [], 0, null)), ...timing];
    const [, table = ""] = /## Metrics\n([\s\S]*)$/.exec(textOf("docs/training.md")) ?? [];
    // An item has one name or several before its colon, and may go on with "; `other`: ...".
    const parts = table.split(/^- |; (?=`\w+`[:,])/m).slice(1);
    const listed = parts.flatMap((part) =>
      [...(part.split(":")[0] as string).matchAll(/`(\w+)`/g)].map(([, name]) => name as string),
    );
    expect(listed.sort()).toEqual(fields.sort());
  });
});

describe("README.md", () => {
  it("has at most 100 lines", () => {
    expect(textOf("README.md").trimEnd().split("\n").length).toBeLessThanOrEqual(100);
  });
});
