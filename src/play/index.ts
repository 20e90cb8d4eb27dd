/** Rollouts outside of training: choice of the player and scenarios, and the trajectory file. */
export { type ChatLimits, type Chatted, chat, type Speaker } from "./chat.js";
export { adapterFile, existing, openPlayerFor } from "./choose-player.js";
export { fitting, loadFitting } from "./fitting.js";
export { PersonSession, type Terminal } from "./person-session.js";
export { checkEngineChoice, openPlaying, rankOf } from "./playing-engine.js";
export { chooseScenarios, type RolloutsSummary, rolloutsToFile } from "./rollouts-file.js";
export { openSubject, type Subject } from "./subject.js";
