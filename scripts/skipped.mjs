// The tests that pytest skipped, from its JUnit report. A test that is skipped in silence is one that nobody misses.

/** Reasons that are right on some machines: the test is about another kind. Where CI is set, any other is a failure. */
const RIGHT = [
  "of glibc alone",
  "others compute denormals at full speed",
  "Unsloth is not installed here",
  "bitsandbytes is not installed here",
];

/**
 * @param {string} report the XML
 * @param {boolean} strict whether a skipped test fails for want of a right reason
 * @returns {{ line: string, failed: boolean }[]}
 */
export function skippedTests(report, strict) {
  const skipped = report.matchAll(/ name="([^"]*)"[^>]*><skipped [^>]*message="([^"]*)"/g);
  return [...skipped].map(([, name, reason]) => {
    const failed = strict && !RIGHT.includes(reason);
    return { line: `pytest ${failed ? "FAILED, being skipped" : "skipped"}: ${name} (${reason})`, failed };
  });
}
