/** Options of exports, and of packing hone for machines without a network. Part of options.ts. */
import { declareOptions } from "../../core/config/config.js";
import { choice, flag, inGroup, size, text } from "../../core/config/option.js";

const exportOptions = declareOptions({
  ...inGroup("Export", ["export"], {
    to: choice(
      ["peft", "gguf-lora", "gguf", "safetensors", "ollama"],
      "What is written: the adapter (peft, gguf-lora), or the model with it merged in.",
      { first: ["export"] },
    ),
    type: choice(["f16", "bf16", "q8_0", "q4_k_m"], "Weights of what is written; safetensors takes f16 and bf16.", {
      defaultText: "bf16 where the base model has it, else f16",
      first: ["export"],
    }),
    force: flag("Replace the folder of an earlier export or pack.", {
      default: false,
      commands: ["export", "pack"],
      first: ["export", "pack"],
    }),
    baseName: text("The base model's repository on the Hub, for those who load it.", {
      accepts: "ORGANISATION/NAME",
      defaultText: "the run's model, where it came from the Hub",
      first: ["export"],
    }),
    baseFolder: text("Hugging Face folder of the base model, to take tokenizer and config.json from.", {
      accepts: "a path",
      defaultText: "the folder that the run's model was converted from",
    }),
    push: text("Repository of the Hub to send it to; one that is not there is made, private.", {
      accepts: "ORGANISATION/NAME",
      defaultText: "nothing is sent",
      first: ["export"],
    }),
  }),
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

type Own = typeof exportOptions;
declare module "../../core/config/config.js" {
  interface OptionTable extends Own {}
}
