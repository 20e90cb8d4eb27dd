/**
 * `yarn test --full`: false with `--guards`, which leaves out what shows again, on other ways, what other slower tests show of the
 * step.
 */
export const everything = Boolean(process.env.TEST_FULL) && process.env.TEST_FULL !== "guards";
