import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Booking, bookingStatuses, Listing, listingStatuses } from "../../src/models/records.ts";
import { documentModel } from "../../tools/model-docs.ts";

const root = join(import.meta.dirname, "../..");
const file = join(root, "docs/fields.md");

/** Returns a table of the members of a model's interface: name, type, and the first sentences of the TSDoc. */
function tableOf(model: "Booking" | "Listing"): string {
  const rows = documentModel(model).fields.map(
    ({ name, type, required, text }) =>
      `| \`${name}\` | \`${type.replaceAll("|", "\\|")}\` | ${required ? "yes" : "no"} | ${text} |`,
  );
  return ["| Field | Type | Always present | Meaning |", "|---|---|---|---|", ...rows].join("\n");
}

function page(): string {
  const list = (statuses: readonly string[]) => statuses.map((status) => `\`${status}\``).join(", ");
  return `# Fields of bookings and listings

Read this page to find a field of a booking or listing. Records also have all other fields that the platform sends. To
give these fields types, pass a model to the client. Without a model, read them with
\`booking as Booking & Record<string, unknown>\`. A test makes this page from the models.

## Booking

${tableOf("Booking")}

Statuses: ${list(bookingStatuses)}.

## Listing

${tableOf("Listing")}

Statuses: ${list(listingStatuses)}.
`;
}

test("docs/fields.md says what the models have: STAYHOOK_UPDATE_FIELDS=1 writes it", () => {
  if (process.env.STAYHOOK_UPDATE_FIELDS === "1") writeFileSync(file, page());
  expect(readFileSync(file, "utf8")).toBe(page());
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
