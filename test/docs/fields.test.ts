import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import { Booking, bookingStatuses } from "../../src/models/booking.ts";
import { Listing, listingStatuses } from "../../src/models/listing.ts";

const root = join(import.meta.dirname, "../..");
const file = join(root, "docs/fields.md");

/** The members of a model's interface as rows of a table: name, type, and the first sentences of the TSDoc. */
function tableOf(model: "Booking" | "Listing"): string {
  const path = join(root, `src/models/${model.toLowerCase()}.ts`);
  const source = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true);
  const declared = source.statements
    .filter(ts.isInterfaceDeclaration)
    .find(({ name }) => name.text === model);
  const rows = (declared?.members ?? []).flatMap((member) => {
    if (!ts.isPropertySignature(member)) return [];
    const [comment] = ts.getJSDocCommentsAndTags(member);
    const text = ts
      .getTextOfJSDocComment(comment?.comment)
      ?.replaceAll(/\{@link (\w+)\}/g, "`$1`")
      .replaceAll(/\s+/g, " ");
    const type = member.type
      ?.getText(source)
      .replace(/ \| undefined$/, "")
      .replaceAll("|", "\\|");
    const isAlwaysThere = member.questionToken === undefined ? "yes" : "no";
    return [`| \`${member.name.getText(source)}\` | \`${type}\` | ${isAlwaysThere} | ${text} |`];
  });
  return ["| Field | Type | Always there | |", "|---|---|---|---|", ...rows].join("\n");
}

function page(): string {
  const list = (statuses: readonly string[]) => statuses.map((status) => `\`${status}\``).join(", ");
  return `# Fields of bookings and listings

The platform sends further fields, and the objects have them. Give the client a model to have them typed, or read them
with \`booking as Booking & Record<string, unknown>\`. A test makes this page from the models.

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
