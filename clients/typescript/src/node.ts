/** For Node: a state in a file. */
export { FileState } from "./file-state.js";
