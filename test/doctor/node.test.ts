/** What doctor says of Node. */
import { expect, it } from "vitest";
import { checkNode } from "../../src/hone/doctor/machine.js";

it.each([
  ["v18.20.8", "wrong", "install Node 20.19 or newer"],
  ["v20.20.2", "note", "Node 22 and newer"],
  ["v22.23.3", "ok", undefined],
  ["v24.21.0", "ok", undefined],
])("%s is %s", (version, state, mend) => {
  const check = checkNode(version);
  expect(check.state).toBe(state);
  if (mend !== undefined) expect(check.mend).toContain(mend);
});
