import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Booking, bookingStatuses, Listing, listingStatuses } from "../../src/models/records.ts";
import { documentModel } from "../../tools/model-docs.ts";

const root = join(import.meta.dirname, "../..");
const file = join(root, "docs/events.md");

/** Returns a table of the members of a model's interface: name, type, and the first sentences of the TSDoc. */
function tableOf(model: "Booking" | "Listing"): string {
  const rows = documentModel(model).fields.map(
    ({ name, type, required, text }) =>
      `| \`${name}\` | \`${type.replaceAll("|", "\\|")}\` | ${required ? "yes" : "no"} | ${text} |`,
  );
  return ["| Field | Type | Always present | Meaning |", "|---|---|---|---|", ...rows].join("\n");
}

const HEAD = "## Fields of bookings and listings\n";

function section(): string {
  const list = (statuses: readonly string[]) => statuses.map((status) => `\`${status}\``).join(", ");
  return `${HEAD}
[Custom fields](#custom-fields) gives types to all others that the platform sends. A test makes this section from the models.

### Booking

${tableOf("Booking")}

Statuses: ${list(bookingStatuses)}.

### Listing

${tableOf("Listing")}

Statuses: ${list(listingStatuses)}.
`;
}

test("docs/events.md ends with what the models have: STAYHOOK_UPDATE_FIELDS=1 writes it", () => {
  const before = readFileSync(file, "utf8").split(HEAD)[0];
  if (process.env.STAYHOOK_UPDATE_FIELDS === "1") writeFileSync(file, `${before}${section()}`);
  expect(readFileSync(file, "utf8")).toBe(`${before}${section()}`);
});

test.each([
  ["Booking", Booking],
  ["Listing", Listing],
] as const)("each field of the schema of %s is in its table, and no other", (name, schema) => {
  const fields = Array.from(
    tableOf(name).matchAll(/^\| `(\w+)` \|.*\| (yes|no) \|/gm),
    ([, field, always]) => [field, always === "yes"],
  );
  const required = Object.entries(schema.shape).map(([field, type]) => [
    field,
    !type.safeParse(undefined).success,
  ]);
  expect(fields).toEqual(required);
});
