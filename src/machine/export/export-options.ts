/** Options of exports. */
import { declareOptions } from "../../core/config/config.js";
import { choice, flag, inGroup, text } from "../../core/config/option.js";

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
});

type Own = typeof exportOptions;
declare module "../../core/config/config.js" {
  interface OptionTable extends Own {}
}
