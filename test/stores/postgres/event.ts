export { CLAIM, DONE, eventOf } from "../sqlite/event.ts";
