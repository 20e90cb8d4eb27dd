/** Loads the options of all rooms that a training has to do with. */
import "../machine/input-options.js";
import "../scenarios/scenario-options.js";
import "../machine/play/player-options.js";
import "./training-options.js";
import "../insight/insight-options.js";
import "../machine/export/export-options.js";
import "./learner-options.js";
import "../judge/judging-options.js";
