// Prints the interpreter of the development environment, which is made where it is missing:
// `$(node scripts/python.mjs) -m pytest -q`. Needs the compiled files (`yarn build`).
import { developmentPython } from "./test-ground.mjs";

try {
  console.log(await developmentPython(true));
} catch (error) {
  console.error(`hone: ${error.message}`);
  process.exitCode = 1;
}
