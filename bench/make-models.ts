/** `yarn test-models [tiny|published|0.5b|wide|card ...]`: makes the models of tests and benchmarks; all of them by default. */
import { messageOf } from "../src/util/errors.js";
import { ensureTestModels, modelFolder, modelSets } from "./models.js";

const asked = process.argv.slice(2);
if (asked.includes("--help")) {
  console.log(`yarn test-models [${modelSets.join("|")} ...]

Makes the models that tests and benchmarks run on, in ${modelFolder}; all sets by default.
What each set holds is said in test/models/make.py. Nothing is done for sets that are there.`);
} else {
  const sets = modelSets.filter((set) => asked.length === 0 || asked.includes(set));
  const unknown = asked.find((name) => !modelSets.some((set) => set === name));
  if (unknown !== undefined) {
    console.error(`${unknown} is no set of test models; there are ${modelSets.join(" and ")}`);
    process.exitCode = 2;
  } else {
    try {
      await ensureTestModels(sets, (line) => console.error(line));
      console.log(modelFolder);
    } catch (error) {
      console.error(messageOf(error));
      process.exitCode = 1;
    }
  }
}
