/**
 * JSON text of a value that a parser made, however deep it is nested.
 *
 * @param maxLength - beyond it, it gives up: what came as JSON is not that long
 * @returns `undefined` where there is no such text
 */
export function serialise(value: unknown, maxLength: number): string | undefined {
  try {
    return JSON.stringify(value);
  } catch (error) {
    // JSON.parse takes any depth, JSON.stringify some thousands.
    if (!(error instanceof RangeError)) return undefined;
  }
  try {
    return serialiseDeep(value, maxLength);
  } catch {
    return undefined;
  }
}

type Step = { readonly text: string } | { readonly value: unknown };

function serialiseDeep(root: unknown, maxLength: number): string | undefined {
  const steps: Step[] = [{ value: root }];
  let text = "";
  for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
    if ("text" in step) text += step.text;
    else if (typeof step.value !== "object" || step.value === null) text += JSON.stringify(step.value);
    else for (const part of partsOf(step.value).reverse()) steps.push(part);
    if (text.length > maxLength) return undefined;
  }
  return text;
}

function partsOf(value: object): Step[] {
  const parts: Step[] = [];
  const isList = Array.isArray(value);
  for (const [key, member] of Object.entries(value)) {
    const before = parts.length === 0 ? "" : ",";
    parts.push({ text: isList ? before : `${before}${JSON.stringify(key)}:` }, { value: member });
  }
  return [{ text: isList ? "[" : "{" }, ...parts, { text: isList ? "]" : "}" }];
}
