// Parses JSON without rounding integers. Many platforms have ids of 18 digits, and a number holds only 15 of them exactly.

/** Integers of 16 digits or more, and what shows where a text begins and ends: its quotes, and the escapes in it. */
const LONG_OR_TEXT = /\\.|"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g;
const hasLong = /\d{16}/;

/**
 * Parses JSON. An integer that is written without point and exponent, and that a number cannot hold, becomes a string of
 * its digits, wherever it stands.
 */
export function parseExactly(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return hasLong.test(text) ? JSON.parse(replaceLarge(text, (digits) => `"${digits}"`)) : value;
}

/**
 * Returns the JSON of a value that another parser has made. Writes an integer that was rounded with an exponent, so that
 * nobody takes its digits for those of an id.
 */
export function withoutRounded(json: string): string {
  return hasLong.test(json) ? replaceLarge(json, (digits) => Number(digits).toExponential()) : json;
}

/** Replaces the integers of valid JSON that a number cannot hold. */
function replaceLarge(json: string, write: (digits: string) => string): string {
  let isInText = false;
  return json.replace(LONG_OR_TEXT, (found) => {
    if (found === '"') isInText = !isInText;
    const isLarge = !isInText && hasLong.test(found) && !Number.isSafeInteger(Number(found));
    return isLarge ? write(found) : found;
  });
}
