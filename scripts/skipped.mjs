// Lists the tests that pytest skipped, from its JUnit report, so that no test is skipped unnoticed.

/**
 * Reasons that are valid on some machines, where the test concerns another kind. With CI set, any other one is a
 * failure.
 */
const RIGHT = [
  "of glibc alone",
  "others compute denormals at full speed",
  "Unsloth is not installed here",
  "bitsandbytes is not installed here",
];

/**
 * @param {string} report the XML
 * @param {boolean} strict whether a test skipped without a valid reason counts as failed
 * @returns {{ line: string, failed: boolean }[]}
 */
export function skippedTests(report, strict) {
  const skipped = report.matchAll(/ name="([^"]*)"[^>]*><skipped [^>]*message="([^"]*)"/g);
  return [...skipped].map(([, name, reason]) => {
    const failed = strict && !RIGHT.includes(reason);
    return { line: `pytest ${failed ? "FAILED, being skipped" : "skipped"}: ${name} (${reason})`, failed };
  });
}
