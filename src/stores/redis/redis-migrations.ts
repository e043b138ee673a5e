/** The first version of the keys that this version of stayhook can use. stayhook 1.2 and earlier wrote version 2 at most. */
export const FIRST_VERSION = 3;

/**
 * Lua that leads the keys from one version to the next, in this order. The first entry leads from version 3 to version
 * 4. An entry only adds keys and fields, so that older versions of stayhook can go on using the keys. While it runs, Redis
 * runs no other command, so an entry must not walk through all events.
 */
export const migrations: readonly string[] = [];

/** The version of the keys that this version of stayhook makes. */
export const LATEST_VERSION = FIRST_VERSION + migrations.length;
