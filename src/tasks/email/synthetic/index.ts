/** The synthetic world: mailboxes with questions whose answers can be checked, generated from a seed. */
export { guessAnswer } from "./facts.js";
export { type Kind, kinds, type NamePools, type NameSet } from "./pools.js";
export { type Mailbox, syntheticWorld, type WorldOptions } from "./world.js";
