// Parses JSON without rounding ids. Many platforms have ids of 18 digits, and a number holds only 15 of them exactly.

/** An id that is a number of 16 digits or more. In valid JSON, an unescaped `"` cannot begin inside of a string. */
const LARGE_ID = /(?<=[{,\s])"(listingId|bookingCode)"(\s*:\s*)(-?[1-9]\d{15,})(?:\.0+)?(?![\d.eE])/g;
const isUnusual = /\d{16}/;

/** Parses JSON. A `listingId` or `bookingCode` that a number cannot hold becomes a string of its digits. */
export function parseExactly(text: string): unknown {
  return JSON.parse(isUnusual.test(text) ? replaceLarge(text, (digits) => `"${digits}"`) : text);
}

/**
 * Returns the JSON of a value that another parser has made. Writes an id that was rounded with an exponent, so that nobody
 * takes its digits for those of the id.
 */
export function withoutRounded(json: string): string {
  return isUnusual.test(json) ? replaceLarge(json, (digits) => Number(digits).toExponential()) : json;
}

function replaceLarge(text: string, write: (digits: string) => string): string {
  return text.replace(LARGE_ID, (whole, name: string, colon: string, digits: string) =>
    Number.isSafeInteger(Number(digits)) ? whole : `"${name}"${colon}${write(digits)}`,
  );
}
