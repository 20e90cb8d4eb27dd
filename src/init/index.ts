/** Creates new projects. */
export { besideOf, dependencyOf, type Ground, groundOf, nameOf, writeProject } from "./init.js";
export { honeOf, type Project } from "./templates.js";
