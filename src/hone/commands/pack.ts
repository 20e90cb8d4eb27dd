/** `yarn hone pack` and `yarn hone unpack`: moves hone with its models to a machine without a network. */

import { HoneError } from "../../core/util/errors.js";
import { pack } from "../../machine/pack/pack.js";
import { UnpackError, unpack } from "../../machine/pack/unpack.mjs";
import { sizeText } from "../../machine/plan/machine.js";
import { defineCommand } from "../command.js";

export const packCommand = defineCommand({
  name: "pack",
  required: ["for", "out"],
  epilogue:
    "--out is the folder to make. --model takes several models with commas; hone's own need not be named.\n--python names a Python of the version that the other machine has. --learner unsloth packs Unsloth too.\ndocs/pack.md says what the other machine must have.",
  async run(config, io) {
    const done = await pack(config, io);
    io.log(`${done.folder}: ${done.files.length} files, ${sizeText(done.bytes)} unpacked`);
    io.log("copy them to the other machine, and start there: node unpack.mjs --into FOLDER");
    return done;
  },
});

export const unpackCommand = defineCommand({
  name: "unpack",
  positional: "pack",
  async run({ pack: from = ".", into }, io) {
    try {
      const { folder, target, hone: version, models } = await unpack(from, into, io);
      io.log(`hone ${version} for ${target} is in ${folder}`);
      return { folder, target, hone: version, models };
    } catch (error) {
      if (error instanceof UnpackError) throw new HoneError(error.message, { cause: error });
      throw error;
    }
  },
});
