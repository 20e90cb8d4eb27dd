/** Creates new projects. */
export { dependencyOf, type Ground, groundOf, nameOf, writeProject } from "./init.js";
export { honeOf, type Project } from "./templates.js";
