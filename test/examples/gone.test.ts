// A reader copies the callbacks that free nights. Without `booking.gone`, the nights of a deleted booking stay blocked.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const exclude = (path: string) => path.includes("node_modules");
const files = globSync(["README.md", "docs/**/*.md", "examples/**/*.ts"], { cwd: root, exclude });
/** A callback of `on`. The test of a callback names a type, too, but not as a key. */
const frees = (text: string) => text.includes('"booking.Cancelled":');

test.each(files.filter((file) => frees(readFileSync(join(root, file), "utf8"))))(
  "%s handles a booking that the platform has deleted as one that is cancelled",
  (file) => {
    expect(readFileSync(join(root, file), "utf8")).toContain('"booking.gone":');
  },
);

test("the examples and pages are found", () => {
  expect(files).toContain("examples/express.ts");
  expect(files).toContain("docs/quick-start.md");
});
