// Keeps what the platform sent beside the record that a model made of it.

import { shared } from "../copies.ts";
import { isObject } from "./is-object.ts";

/** By record: the record as the platform sent it. A user's model may leave out or rename fields. */
const sent = () => shared("sent", () => new WeakMap<object, object>());

/** Remembers what the platform sent for a record that a model has made of it. */
export function rememberAsSent(record: unknown, value: unknown): void {
  if (isObject(record) && isObject(value)) sent().set(record, value);
}

/** Returns the record as the platform sent it, or the record itself if that is unknown. */
export function asSent(record: object): object {
  return sent().get(record) ?? record;
}
