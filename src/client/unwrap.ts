/** A part of a body, and the property names and indexes that lead to it. */
export interface Part<T = unknown> {
  readonly value: T;
  readonly path: readonly (string | number)[];
}

type Properties = Readonly<Record<string, unknown>>;

const recordNames = ["data", "booking", "listing", "config", "webhookConfig", "webhook", "result", "item"];
const listNames = ["listings", "data", "items", "results"];

/**
 * The record in a body: the body itself, or what stands in one of its properties, the usual ones first.
 *
 * @param required - the fields that make it one, its identity first
 */
export function findRecord(body: unknown, required: readonly [string, ...string[]]): Part {
  const parts: Part[] = [{ value: body, path: [] }, ...below({ value: body, path: [] }, recordNames)];
  const having = (fields: readonly string[]) =>
    parts.find(({ value }) => isObject(value) && fields.every((field) => Object.hasOwn(value, field)));
  // Where none is whole, the error should speak of the one that comes nearest.
  return having(required) ?? having([required[0]]) ?? (parts[0] as Part);
}

/** The list in a body: the body itself, or an array of objects in a property, or in a property of a property. */
export function findList(body: unknown): Part<readonly unknown[]> | undefined {
  const root: Part = { value: body, path: [] };
  if (isList(root)) return root;
  const outer = below(root, listNames);
  const all = [...outer, ...outer.flatMap((part) => below(part, listNames))];
  const lists = all.filter(isList);
  for (const name of listNames) {
    const named = lists.find(
      (part) => part.path.at(-1) === name && (part.value.length === 0 || hasObjects(part)),
    );
    if (named) return named;
  }
  const others = lists.filter(hasObjects);
  const ofListings = others.find(({ value }) => value.some((row) => isObject(row) && "listingId" in row));
  return ofListings ?? others[0] ?? onlyEmpty(lists);
}

/** Whether a body says that there is nothing: empty, or with nothing but emptiness in its properties. */
export function isNothing(body: unknown): boolean {
  if (isEmpty(body)) return true;
  if (!isObject(body)) return false;
  const values = Object.values(body);
  // Beside it `success: true` is fine; a message, a code or `false` may stand for an outage.
  return values.some(isEmpty) && values.every((value) => isEmpty(value) || value === true);
}

export function isObject(value: unknown): value is Properties {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The properties of a part that is an object, named ones first. */
function below(part: Part, names: readonly string[]): Part[] {
  const { value, path } = part;
  if (!isObject(value)) return [];
  const keys = Object.keys(value);
  const sorted = [
    ...names.filter((name) => Object.hasOwn(value, name)),
    ...keys.filter((key) => !names.includes(key)),
  ];
  return sorted.map((key) => ({ value: value[key], path: [...path, key] }));
}

function isList(part: Part): part is Part<readonly unknown[]> {
  return Array.isArray(part.value);
}

function hasObjects({ value }: Part<readonly unknown[]>): boolean {
  return value.some(isObject);
}

/** An empty array of unknown name means no rows only where nothing else can be meant: no listing must look gone. */
function onlyEmpty(lists: readonly Part<readonly unknown[]>[]): Part<readonly unknown[]> | undefined {
  const [only, second] = lists;
  if (!only || second || only.value.length > 0) return undefined;
  return /error|warning|message|issue/i.test(String(only.path.at(-1))) ? undefined : only;
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}
