import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import {
  freePort,
  installed,
  type OwnServer,
  ownServer,
  sharedServer,
} from "../../support/server-process.ts";

/** Returns the URL of a NATS server with JetStream: `NATS_URL`, or the server of this machine, or an own one. */
export const natsUrl = sharedServer(
  "NATS with JetStream",
  () => [process.env.NATS_URL ?? "nats://127.0.0.1:4222"],
  hasJetStream,
  startOwnNats,
);

async function hasJetStream(servers: string): Promise<boolean> {
  try {
    const connection = await connect({ servers, timeout: 1000, reconnect: false });
    try {
      await (await jetstreamManager(connection)).getAccountInfo();
      return true;
    } finally {
      await connection.close();
    }
  } catch {
    return false;
  }
}

async function startOwnNats(): Promise<OwnServer | undefined> {
  const program = installed(["nats-server"]);
  if (program === undefined) return undefined;
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), "stayhook-nats-"));
  const args = ["-js", "-a", "127.0.0.1", "-p", String(port), "-sd", directory];
  return ownServer({
    ...{ url: `nats://127.0.0.1:${port}`, directory, answers: hasJetStream },
    run: () => spawn(program, args, { stdio: "ignore" }),
  });
}
