/** Prints the names of the synthetic world as one JSON object: pool → words. Reserved names stay out: they are for tests. */
import { idWords, months, pools, topics } from "../../../dist/src/task/email/synthetic/pools.js";

const { first, last, projects, companies, places } = pools.default;
const names = { first, last, projects, companies, places, months, topics: Object.values(topics).flat() };
console.log(JSON.stringify({ ...names, idFirst: idWords.first, idSecond: idWords.second }));
