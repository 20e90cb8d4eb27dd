// Lists the tests that pytest skipped, so that no test is skipped unnoticed, and those that failed, from its JUnit report.

/**
 * Reasons that are valid on some machines, where the test concerns another kind. With CI set, any other one is a
 * failure.
 */
const RIGHT = [
  "of glibc alone",
  "of Linux alone",
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

const ENTITIES = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };

/**
 * @param {string} report the XML
 * @returns {string[]} of each test that failed or could not begin: its name and the first line of its error
 */
export function failedTests(report) {
  const failed = report.matchAll(
    /<testcase classname="([^"]*)" name="([^"]*)"[^>]*><(?:failure|error) message="([^"]*)"/g,
  );
  const lines = [...failed].map(([, file, name, error]) => `${file} ${name}: ${error.split("&#10;")[0]}`);
  return lines.map((line) => line.replace(/&(lt|gt|quot|apos|amp);/g, (_, name) => ENTITIES[name]));
}
