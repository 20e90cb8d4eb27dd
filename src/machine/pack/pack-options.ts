/** Options of packing hone for machines without a network. Part of options.ts. */
import { declareOptions } from "../../core/config/config.js";
import { choice, inGroup, size, text } from "../../core/config/option.js";

const packOptions = declareOptions({
  ...inGroup("Without a network", ["pack"], {
    for: choice(
      ["linux-x64-cpu", "linux-x64-vulkan", "linux-x64-cuda12", "linux-x64-cuda13"],
      "Machine that hone is packed for. docs/pack.md says what it must have.",
      { first: ["pack"] },
    ),
    partSize: size("Size of the pack's files; the last one may be smaller.", { default: "1900M", first: ["pack"] }),
    pack: text("Folder of a pack.", { accepts: "a path", defaultText: "the current folder", commands: ["unpack"] }),
  }),
});

type Own = typeof packOptions;
declare module "../../core/config/config.js" {
  interface OptionTable extends Own {}
}
