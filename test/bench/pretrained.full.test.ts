/** Files whose parts lie in several wheels, out of a folder of wheels as pip takes one. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { putTogether } from "../../bench/pretrained.js";
import { packageRoot } from "../../src/core/util/paths.js";
import type { WheelPart } from "../../src/machine/python/wheel.js";

const tiny = readFileSync(join(packageRoot, "models/tiny/tiny.gguf"));
const WRITE = `
import sys, zipfile
folder, tiny = sys.argv[1:]
data = open(tiny, "rb").read()
for n, part in ((1, data[:len(data) // 3]), (2, data[len(data) // 3:])):
    with zipfile.ZipFile(f"{folder}/in_parts_{n}-1.0-py3-none-any.whl", "w") as wheel:
        info = f"in_parts_{n}-1.0.dist-info"
        wheel.writestr("model.bin", part)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: in-parts-{n}\\nVersion: 1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
`;
const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

const before = { ...process.env };
let folder: string;
let parts: WheelPart[];
const io = { log: () => undefined };

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-pretrained-"));
  const wheels = join(folder, "wheels");
  mkdirSync(wheels);
  execFileSync("python3", ["-c", WRITE, wheels, join(packageRoot, "models/tiny/tiny.gguf")]);
  parts = [1, 2].map((n) => {
    const wheel = readFileSync(join(wheels, `in_parts_${n}-1.0-py3-none-any.whl`));
    return { name: `in-parts-${n}`, version: "1.0", sha256: sha256(wheel), file: "model.bin" };
  });
  Object.assign(process.env, {
    XDG_CACHE_HOME: join(folder, "cache"),
    PIP_CONFIG_FILE: "/dev/null",
    PIP_NO_INDEX: "1",
    PIP_FIND_LINKS: wheels,
  });
});
afterEach(() => {
  process.env = { ...before };
  rmSync(folder, { recursive: true, force: true });
});

it("are put together in the order of the parts, once", async () => {
  const whole = { hub: "A/B:tiny.gguf", sha256: sha256(tiny), parts };
  const file = await putTogether("tiny", whole, io);
  expect(readFileSync(file).equals(tiny)).toBe(true);
  expect(readdirSync(dirname(file)).sort()).toEqual([".lock", "tiny.gguf"]);
  process.env.PIP_FIND_LINKS = join(folder, "nowhere");
  expect(await putTogether("tiny", whole, io)).toBe(file);
});

it("are refused where they make another file, and nothing is kept", async () => {
  const other = { hub: "A/B:tiny.gguf", sha256: "0".repeat(64), parts };
  await expect(putTogether("tiny", other, io)).rejects.toThrow("tiny: its parts make another file");
  expect(readdirSync(join(folder, "cache/hone/pretrained/000000000000"))).toEqual([".lock"]);
});
