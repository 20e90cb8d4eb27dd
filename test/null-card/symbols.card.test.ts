/** What llama.cpp's library for CUDA wants of the runtime is in the package of it that hone installs. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { librariesFolder } from "../../src/engine/libraries.js";
import { built } from "./support.js";
import { exportsOf, undefinedOf } from "./symbols.mjs";

it("the runtime of PyTorch's packages has every function that the engine wants", () => {
  const library = "@node-llama-cpp/linux-x64-cuda/bins/linux-x64-cuda/libggml-cuda.so";
  const folder = librariesFolder({ ...process.env, XDG_CACHE_HOME: join(built, "cache") });
  const wanted = undefinedOf([join(folder, library)]).filter(({ version }) => version === "libcudart.so.13");
  const there = new Set(exportsOf(join(built, "libcudart-real.so.13")));
  expect(wanted.length).toBeGreaterThan(40);
  expect(wanted.filter(({ name }) => !there.has(name))).toEqual([]);
});
