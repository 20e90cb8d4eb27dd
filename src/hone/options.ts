/** Loads the options of all rooms, in the order in which help and docs/options.md have them. */
import "../trainer/options.js";
import "./own-options.js";
