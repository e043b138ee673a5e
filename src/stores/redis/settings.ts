import type { Logger } from "../../logger.ts";
import type { Connection } from "./connection.ts";

/** Says what this Redis would lose of what is answered 200. Where it may not be asked, nothing. */
export async function checkSettings(connection: Connection, logger: Logger): Promise<void> {
  const { link } = connection;
  try {
    const { client } = await link.ready(connection.timeout);
    const info = parseInfo(await client.info());
    const ask = (name: string) => client.config("GET", name).catch(() => []);
    // Many providers refuse this.
    const [fsync, save] = await Promise.all([ask("appendfsync"), ask("save")]);
    const settings = new Map([...info, ...pairs(fsync), ...pairs(save)]);
    for (const loss of lossesBy(settings)) logger.warn(`stayhook: redisStore (${link.name}): ${loss}`);
  } catch {
    logger.debug(`stayhook: redisStore (${link.name}): Redis does not say how it keeps its data`);
  }
}

function* lossesBy(settings: ReadonlyMap<string, string>): Generator<string> {
  const policy = settings.get("maxmemory_policy");
  if (policy?.startsWith("allkeys-")) {
    yield `maxmemory-policy is ${policy}: when its memory is full, Redis deletes events that wait, and those known as handled. Set it to noeviction.`;
  }
  yield* lossesByDisk(settings);
}

function* lossesByDisk(settings: ReadonlyMap<string, string>): Generator<string> {
  const appendOnly = settings.get("aof_enabled");
  if (appendOnly === undefined) return;
  const fsync = settings.get("appendfsync");
  if (appendOnly === "0") {
    yield settings.get("save") === ""
      ? "appendonly is no, and there are no snapshots: when Redis ends, every event is lost, those that were answered 200 among them. Set it to yes."
      : "appendonly is no: when Redis ends, all that came after its last snapshot, if it makes any, is lost, events that were answered 200 among it. Set it to yes.";
  } else if (fsync === "everysec") {
    yield "appendfsync is everysec: when the machine of Redis crashes or loses power, up to two seconds of events that were answered 200 are lost. Set it to always if they must not be.";
  } else if (fsync === "no") {
    yield "appendfsync is no: when the machine of Redis crashes or loses power, the last events that were answered 200 are lost, half a minute of them or more. Set it to always, or at least to everysec.";
  }
}

function parseInfo(info: string): [string, string][] {
  return info.split(/\r?\n/).flatMap((line) => {
    const colon = line.indexOf(":");
    return colon < 0 || line.startsWith("#") ? [] : [[line.slice(0, colon), line.slice(colon + 1)]];
  });
}

/** CONFIG GET answers with a list of names and values, or with a map in newer protocols. */
function pairs(reply: unknown): [string, string][] {
  if (!Array.isArray(reply)) return Object.entries((reply ?? {}) as Record<string, string>);
  return Array.from({ length: reply.length / 2 }, (_, index) => [reply[2 * index], reply[2 * index + 1]]);
}
