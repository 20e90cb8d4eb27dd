/** What a run has learnt is still there after an export: success on the same held-out questions, by `yarn eval`. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import type { Column } from "../../src/insight/report/matrix.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-export-success-"));
afterAll(() => rmSync(folder, { recursive: true }));

function hone(...args: string[]): string {
  const cli = join(packageRoot, "dist/src/cli.js");
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, encoding: "utf8" });
  expect(status, stderr).toBe(0);
  return stdout;
}

it("100 held-out questions: each merged file's interval overlaps the adapter's", async () => {
  const python = ["--python", await ensureLearnerPython()];
  hone("demo", "--gpu", "off", ...python);
  const types = ["f16", "q8_0", "q4_k_m"];
  const merged = types.map((type) => {
    hone("export", "demo", "--to", "gguf", "--type", type, "--out", type, ...python);
    return `${type}=${join(folder, type, `model-${type}.gguf`)}`;
  });
  const players = ["--run", "demo", "--checkpoint", "base,best", "--versus", ...merged];
  const said = hone("eval", ...players, "--n", "100", "--fresh", "--gpu", "off", "--json");
  const { columns } = JSON.parse(said.trimEnd().split("\n").at(-1) as string) as { columns: Column[] };
  const share = ({ result }: Column) => (result as NonNullable<Column["result"]>).figures;
  for (const column of columns) {
    const { success, low, high } = share(column);
    console.log(`${column.title}: ${[success, low, high].map((value) => (100 * value).toFixed(0)).join(", ")} %`);
  }
  const [base, adapter, ...files] = columns.map(share) as [ReturnType<typeof share>, ...ReturnType<typeof share>[]];
  expect(files).toHaveLength(types.length);
  expect(adapter?.low).toBeGreaterThan(base.high);
  for (const file of files) {
    expect(file.low).toBeLessThan(adapter?.high ?? 0);
    expect(file.high).toBeGreaterThan(adapter?.low ?? 1);
  }
});
