/** `doctor` on a null card of a machine that lacks something: an update is made without it, or a line says what to do. */
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { everything } from "../support/everything.js";
import { built, Machine, nullCardPython, root } from "./support.js";

let machine: Machine;
afterEach(() => machine.remove());

const command = [process.execPath, join(root, "dist/src/cli.js"), "doctor", "--json", "--learner", "peft"];

interface Check {
  readonly name: string;
  readonly state: string;
  readonly found: string;
  readonly mend?: string;
}

async function doctor([program = "", ...args]: readonly string[], env: NodeJS.ProcessEnv = {}) {
  // What nothing computes is 0 then, and not what another tensor has left there: the learner looks at its update.
  const { code, stdout, stderr } = await machine.run(program, args, { PYTORCH_NO_CUDA_MEMORY_CACHING: "1", ...env });
  const { checks } = JSON.parse(stdout) as { checks: readonly Check[] };
  return { code, stderr, of: (name: string) => checks.find((check) => check.name === name) };
}

/** As {@link command}, with an empty file system of `size` at a folder: in a namespace of its own. */
const behind = (folder: string, size: string) => [
  ...["unshare", "-rm", "sh", "-c", `mount -t tmpfs -o size=${size} none "$0" && exec "$@"`, folder],
  ...command,
];
const mounts = spawnSync("unshare", ["-rm", "mount", "-t", "tmpfs", "none", "/mnt"]).status === 0;

it("without a C compiler nothing is compiled, and an update is made all the same", async () => {
  machine = new Machine(["4090"]);
  const tools = join(machine.folder, "tools");
  mkdirSync(tools);
  const { of } = await doctor(command, { PATH: `${join(built, "bin")}:${tools}` });
  expect(of("compiler")).toMatchObject({ state: "note", found: expect.stringContaining("no C compiler") });
  expect(of("compiler")?.mend).toContain("apt install gcc python3-dev");
  // Its numbers are wrong, since nothing was computed.
  expect(of("update")?.found).toMatch(/updated in .* nats from the engine$/);
});

if (everything) {
  describe.skipIf(!mounts)(
    `with a file system of its own${mounts ? "" : " (skipped: this user may not mount one)"}`,
    () => {
      // The same way as without a compiler, which is found by another name.
      it("without Python's headers nothing is compiled, and an update is made all the same", async () => {
        machine = new Machine(["4090"]);
        const asked = ["-c", "import sysconfig; print(sysconfig.get_paths()['include'])"];
        const headers = spawnSync(nullCardPython(), asked, { encoding: "utf8" }).stdout.trim();
        const { of } = await doctor(behind(headers, "64k"));
        expect(of("compiler")).toMatchObject({ state: "note", found: expect.stringContaining("no Python.h") });
        expect(of("update")?.found).toMatch(/updated in .* nats from the engine$/);
      });

      it("with a full disk the update is wrong, in one line that says so, and nothing after it is tried", async () => {
        machine = new Machine(["4090"]);
        const full = join(machine.folder, "full");
        mkdirSync(full);
        const { code, stderr, of } = await doctor(behind(full, "64k"), { TMPDIR: full });
        expect(code).toBe(1);
        expect(of("update")).toMatchObject({ state: "wrong", mend: expect.stringContaining("is the disk full?") });
        expect(of("update")?.mend).not.toContain("\n");
        expect(of("adapter")?.state).toBe("none");
        expect(stderr).not.toMatch(/^\s+at |Traceback/m);
      });
    },
  );
}
