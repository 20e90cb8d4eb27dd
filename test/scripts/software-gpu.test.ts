/** scripts/software-gpu.sh on machines of all kinds: programs of the system are stood in for, and nothing is installed. */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const base = mkdtempSync(join(tmpdir(), "hone-software-gpu-"));
afterAll(() => rmSync(base, { recursive: true }));

interface System {
  readonly root?: boolean;
  readonly codename?: string;
  /** Mesa that apt would install, from the distribution and from backports. */
  readonly candidate?: string;
  readonly backports?: string;
  readonly network?: boolean;
  /** Mesa that is installed. */
  readonly mesa?: string;
}

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(base, "system-"));
});

const file = (name: string) => join(folder, name);
const read = (name: string) => (existsSync(file(name)) ? readFileSync(file(name), "utf8") : "");

function script({ root = true, codename = "bookworm", network = true, ...system }: System) {
  const program = (name: string, body: string) => {
    writeFileSync(file(name), `#!/bin/bash\n${body}\n`);
    chmodSync(file(name), 0o755);
  };
  const mesa = (version: string) =>
    `echo '{"why": "", "devices": [{"index": 0, "kind": "cpu", "name": "llvmpipe", "driver": "llvmpipe", "info": "Mesa '${version}'"}]}'`;
  // Stands in for the question to the Vulkan loader.
  program(
    "python3",
    `if [ -e ${file("installed")} ]; then ${mesa(`$(cat ${file("installed")})`)}; else echo '{"devices": [], "why": "no loader"}'; fi`,
  );
  if (system.mesa) writeFileSync(file("installed"), system.mesa);
  program("nvidia-smi", "exit 1");
  program("id", `echo ${root ? 0 : 1000}`);
  program("uname", "echo Linux");
  program(
    "apt-cache",
    `if [ $# = 1 ]; then cat ${file("hone-backports.list")} 2>/dev/null; exit 0; fi
if [ "$3" = -t ]; then echo "  Candidate: ${system.backports ?? "(none)"}"; else echo "  Candidate: ${system.candidate ?? "(none)"}"; fi`,
  );
  program(
    "apt-get",
    `echo "$*" >>${file("apt.log")}
case "$*" in
*" update") ${network ? "exit 0" : "exit 100"} ;;
*"-t bookworm-backports"*) echo "${system.backports}" >${file("installed")} ;;
*) echo "${system.candidate}" >${file("installed")} ;;
esac`,
  );
  for (const name of ["bash", "sed", "grep", "dirname", "cat"]) {
    const from = ["/bin", "/usr/bin"].map((place) => join(place, name)).find(existsSync);
    symlinkSync(from as string, file(name));
  }
  symlinkSync(process.execPath, file("node"));
  writeFileSync(file("os-release"), `VERSION_CODENAME=${codename}\n`);
  const { status, stdout } = spawnSync(file("bash"), [join(packageRoot, "scripts/software-gpu.sh")], {
    env: { PATH: folder, HONE_APT_SOURCES: folder, HONE_OS_RELEASE: file("os-release") },
    encoding: "utf8",
  });
  return { status, said: stdout.trimEnd().split("\n").at(-1), apt: read("apt.log") };
}

describe("scripts/software-gpu.sh", () => {
  it("installs nothing where a usable llvmpipe is there", () => {
    const { status, said, apt } = script({ mesa: "25.0.7" });
    expect({ status, apt }).toEqual({ status: 0, apt: "" });
    expect(said).toMatch(/^a device for the GPU tests is there: vulkan: llvmpipe/);
  });

  it.each([undefined, "22.3.6"])("takes Mesa from backports on Debian 12, adding them (installed: %s)", (mesa) => {
    const { status, said, apt } = script({
      ...(mesa ? { mesa } : {}),
      candidate: "22.3.6-1",
      backports: "25.0.7-2~bpo12+1",
    });
    expect(status, said).toBe(0);
    expect(said).toMatch(/^installed a software GPU: vulkan: llvmpipe, llvmpipe Mesa 25\.0\.7/);
    expect(read("hone-backports.list")).toBe("deb http://deb.debian.org/debian bookworm-backports main\n");
    expect(apt.match(/update$/gm)).toHaveLength(2);
    expect(apt).toMatch(/install .*-t bookworm-backports mesa-vulkan-drivers/);
  });

  it("takes the distribution's own Mesa where it is new enough", () => {
    const { status, apt } = script({ codename: "trixie", candidate: "25.0.7-2" });
    expect(status).toBe(0);
    expect(read("hone-backports.list")).toBe("");
    expect(apt).not.toContain("backports");
  });

  it.each<[string, System, RegExp]>([
    ["root", { root: false }, /needs root/],
    ["a network", { network: false }, /apt-get update failed; is there a network\?/],
    ["a new Mesa", { codename: "jammy", candidate: "23.2.1" }, /this system has Mesa 23, and it takes 25 or newer/],
    ["a new Mesa in backports", { candidate: "22.3.6-1" }, /bookworm-backports has Mesa none/],
  ])("says in one line that it lacks %s", (_, system, why) => {
    const { status, said, apt } = script(system);
    expect(status).toBe(1);
    expect(said).toMatch(/^no software GPU was installed: /);
    expect(said).toMatch(why);
    expect(apt).not.toContain("install ");
  });
});
