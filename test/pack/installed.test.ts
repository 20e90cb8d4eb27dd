/** Which packages are packed, and that each finds the same others in their new place. */
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { HoneError } from "../../src/core/util/errors.js";
import { fetchedLibraries } from "../../src/engine/libraries.js";
import { neededGlibc } from "../../src/machine/pack/glibc.js";
import { filesOf, installedPackages } from "../../src/machine/pack/installed.js";
import { targetNamed } from "../../src/machine/pack/targets.js";

let folder: string;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "hone-installed-")));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A package at a place, which says where it lies when it is loaded. */
function put(place: string, about: object): string {
  const at = join(folder, place);
  mkdirSync(at, { recursive: true });
  writeFileSync(join(at, "package.json"), JSON.stringify({ name: place.replace(/^.*node_modules\//, ""), ...about }));
  writeFileSync(join(at, "index.js"), "");
  return at;
}

const needs = (...names: string[]) => ({ dependencies: Object.fromEntries(names.map((name) => [name, "*"])) });
const all = () => true;

/** The version of each package that another one finds, by chains of names. */
function found(root: string, depth = 4): Record<string, string> {
  const versions: Record<string, string> = {};
  const look = (at: string, chain: string) => {
    const about = JSON.parse(readFileSync(join(at, "package.json"), "utf8"));
    versions[chain] = about.version ?? "";
    if (chain.split(" ").length > depth) return;
    for (const name of Object.keys(about.dependencies ?? {})) {
      const main = createRequire(join(at, "index.js")).resolve(name);
      look(dirname(main), `${chain} ${name}`);
    }
  };
  look(realpathSync(root), "hone");
  return versions;
}

function copied(root: string, takes: (name: string) => boolean = all): string {
  const target = join(folder, "copy");
  for (const { folder: from, place } of installedPackages(root, takes)) {
    for (const path of filesOf(from)) {
      mkdirSync(dirname(join(target, place, path)), { recursive: true });
      cpSync(join(from, path), join(target, place, path));
    }
  }
  return join(target, "node_modules/@hone-rl/hone");
}

describe("the packages of an installation", () => {
  it("find the same versions of each other, where several are installed", () => {
    const root = put("here", needs("a", "b"));
    put("here/node_modules/a", { version: "1", ...needs("b", "c") });
    put("here/node_modules/a/node_modules/b", { version: "2", ...needs("d") });
    put("here/node_modules/a/node_modules/d", { version: "2" });
    put("here/node_modules/b", { version: "1", ...needs("c", "d") });
    put("here/node_modules/c", { version: "1", ...needs("b") });
    put("here/node_modules/d", { version: "1", ...needs("a") });
    const before = found(root);
    expect(before).toMatchObject({ "hone a b d": "2", "hone b d": "1", "hone a c b": "1" });
    expect(found(copied(root))).toEqual(before);
  });

  it("find each other as links lead them, in the manner of pnpm", () => {
    const store = "here/node_modules/.pnpm";
    const root = put("here", needs("a", "b"));
    const put1 = (name: string, version: string, ...of: string[]) =>
      put(`${store}/${name}@${version}/node_modules/${name}`, { version, ...needs(...of) });
    const link = (from: string, to: string) => {
      mkdirSync(dirname(join(folder, from)), { recursive: true });
      symlinkSync(to, join(folder, from));
    };
    const [a, b1, b2] = [put1("a", "1", "b"), put1("b", "1", "c"), put1("b", "2", "c")];
    const c = put1("c", "1");
    link("here/node_modules/a", a);
    link("here/node_modules/b", b1);
    link(`${store}/a@1/node_modules/b`, b2);
    link(`${store}/b@1/node_modules/c`, c);
    link(`${store}/b@2/node_modules/c`, c);
    expect(found(root)).toMatchObject({ "hone a b": "2", "hone b": "1", "hone a b c": "1" });
    expect(found(copied(root))).toEqual(found(root));
  });

  it("are those that run hone: not for development, nor optional ones that are not wanted or not there", () => {
    const root = put("here", {
      ...needs("@x/a"),
      devDependencies: { tool: "*" },
      optionalDependencies: { "@y/linux": "*", "@y/mac": "*", "@y/absent": "*" },
    });
    put("here/node_modules/tool", {});
    put("here/node_modules/@y/linux", {});
    put("here/node_modules/@y/mac", {});
    put("here/node_modules/@x/a", {
      peerDependencies: { p: "*", q: "*" },
      peerDependenciesMeta: { q: { optional: true } },
    });
    put("here/node_modules/p", {});
    put("here/node_modules/q", {});
    const places = installedPackages(root, (name) => name !== "@y/mac").map(({ place }) => place);
    expect(places.sort()).toEqual(["@hone-rl/hone", "@x/a", "@y/linux", "p"].map((name) => `node_modules/${name}`));
  });

  it("are refused when one is missing", () => {
    const root = put("here", { name: "hone", ...needs("gone") });
    expect(() => installedPackages(root, all)).toThrow(HoneError);
    expect(() => installedPackages(root, all)).toThrow(/^gone, which hone needs, is not installed: run /);
  });

  it("leave behind what a compiler left there, and other packages beneath them", () => {
    const at = put("p", {});
    const write = (path: string) => {
      mkdirSync(dirname(join(at, path)), { recursive: true });
      writeFileSync(join(at, path), "");
    };
    for (const path of [
      "build/Release/p.node",
      "build/Release/obj.target/p.o",
      "build/Release/.deps/p.d",
      "lib/obj/x.js",
    ])
      write(path);
    write("node_modules/other/index.js");
    expect(filesOf(at).sort()).toEqual(["build/Release/p.node", "index.js", "lib/obj/x.js", "package.json"]);
  });
});

describe("what is compiled", () => {
  it("needs the newest glibc that one of the files names; a wheel with several tags the oldest of them", () => {
    const write = (name: string, text: string) => {
      writeFileSync(join(folder, name), text);
      return { file: join(folder, name), bytes: text.length };
    };
    const library = write("a.so.1", "\0GLIBC_2.4\0GLIBC_2.17\0GLIBCXX_3.4.29\0");
    const addon = write("a.node", "\0GLIBC_2.3.4\0GLIBC_2.28\0");
    expect(neededGlibc([library])).toBe("2.17");
    expect(neededGlibc([library, addon, write("notes.txt", "GLIBC_2.99")])).toBe("2.28");
    const wheel = write("x-1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_31_x86_64.whl", "GLIBC_2.99");
    expect(neededGlibc([wheel])).toBe("2.27");
    expect(neededGlibc([write("y-1-cp311-cp311-manylinux2014_x86_64.whl", "")])).toBe("2.17");
    expect(neededGlibc([write("z-1-py3-none-any.whl", "")])).toBe("2.0");
  });

  it.each([
    ["linux-x64-cpu", [], "cpu"],
    ["linux-x64-vulkan", ["linux-x64-vulkan"], "cpu"],
    // The base library of both is in the package of CUDA 13.
    ["linux-x64-cuda12", ["linux-x64-cuda", "linux-x64-cuda-ext"], "cuda12"],
    ["linux-x64-cuda13", ["linux-x64-cuda"], "cuda13"],
  ] as const)("of llama.cpp are the CPU's, and what %s needs, which hone can fetch", (name, libraries, build) => {
    const target = targetNamed(name, { platform: "linux", arch: "x64" });
    expect(target).toMatchObject({ build, libraries: ["linux-x64", ...libraries] });
    for (const one of libraries) expect(fetchedLibraries).toHaveProperty([`@node-llama-cpp/${one}`]);
  });

  it("is packed on a machine of its own kind alone", () => {
    expect(targetNamed("linux-x64-cuda12", { platform: "linux", arch: "x64" })).toMatchObject({
      build: "cuda12",
      cuda: { major: 12, driver: 525 },
    });
    expect(() => targetNamed("linux-x64-cpu", { platform: "darwin", arch: "arm64" })).toThrow(
      /--for linux-x64-cpu: .* pack it on Linux x64; this is darwin on arm64/,
    );
  });
});
