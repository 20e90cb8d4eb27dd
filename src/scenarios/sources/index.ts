/** Where scenarios come from: one file a kind of source. */
export { documentSource } from "./documents.js";
export { mailSource } from "./mail.js";
export { serversSource } from "./servers.js";
export { sqlSource } from "./sql.js";
