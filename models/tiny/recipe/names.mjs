/**
 * Prints the names of the synthetic world as one JSON object: pool → words. "reserved" are the names of the world that
 * only tests have: they get tokens, as rare words have in any vocabulary, but no text that is trained on has them.
 */
import { idWords, months, pools, topics } from "../../../dist/src/email/synthetic/pools.js";

const { first, last, projects, companies, places } = pools.default;
const names = { first, last, projects, companies, places, months, topics: Object.values(topics).flat() };
const reserved = Object.values(pools.reserved).flat();
console.log(JSON.stringify({ ...names, idFirst: idWords.first, idSecond: idWords.second, reserved }));
