// The random waits of the code under test are the same in each run of a test, so that one that fails fails again, and none
// fails in one of forty runs. The soak draws others.
import { beforeEach } from "vitest";
import { createRandom } from "../../src/sandbox/random.ts";
import { isSoak } from "./soak.ts";

const { random } = Math;

beforeEach(({ task }) => {
  if (isSoak) return;
  Math.random = createRandom(1, `${task.file.name} ${task.name}`).next;
  return () => {
    Math.random = random;
  };
});
