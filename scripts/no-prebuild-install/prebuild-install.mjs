#!/usr/bin/env node
// Succeeds, so that better-sqlite3 compiles nothing: scripts/build-addon.mjs does.
