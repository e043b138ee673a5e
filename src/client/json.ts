/** The properties of a parsed JSON object. */
export type Properties = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Properties {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Converts a number or a text. Gives NaN for any other value, because the conversion of an object may throw. */
export function toNumber(value: unknown): number {
  return typeof value === "number" || typeof value === "string" ? Number(value) : Number.NaN;
}

/** Returns a name in lower case and without separators: APIs write `nextPage`, `next_page` and `NextPage`. */
export function plainName(name: string): string {
  return name.toLowerCase().replace(/[^a-z]/g, "");
}

/** APIs usually give one of these names to the property with the payload. */
export const payloadNames =
  "data booking listing config webhookConfig webhook configuration result response payload record item".split(
    " ",
  );
