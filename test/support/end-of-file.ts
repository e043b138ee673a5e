// Each file of the unit tests begins with this one. It ends the timers that the file leaves: the loop of a handler that
// nobody has closed would go on in the next files of the worker, and there on fake time, in which it wakes for whole days.
// It also sets the clock right that a sandbox has moved and that nobody has closed, and no clock wakes those loops again.
import { afterAll } from "vitest";
import { shared } from "../../src/copies.ts";

const { setTimeout, setInterval } = globalThis;
const left: NodeJS.Timeout[] = [];

type Start = (...given: Parameters<typeof setTimeout>) => NodeJS.Timeout;

const noting =
  (start: Start): Start =>
  (...given) => {
    const timer = start(...given);
    left.push(timer);
    return timer;
  };

Object.assign(globalThis, { setTimeout: noting(setTimeout), setInterval: noting(setInterval) });

afterAll(() => {
  left.forEach(clearTimeout);
  const clock = shared("clock", () => ({ ahead: new Map(), listeners: new Set() }));
  for (const each of [clock.ahead, clock.listeners]) each.clear();
  Object.assign(globalThis, { setTimeout, setInterval });
});
