import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { freePort } from "../../support/server.ts";

const onThisMachine = process.env.NATS_URL ?? "nats://127.0.0.1:4222";

/**
 * Returns the URL of a NATS server with JetStream. It tries `NATS_URL`, then port 4222. Otherwise it starts
 * `nats-server`, which ends with this process. Returns `undefined` if the program is not installed. In CI that is an
 * error.
 */
export async function natsUrl(): Promise<string | undefined> {
  if (await hasJetStream(onThisMachine)) return onThisMachine;
  const own = await startOwnNats();
  if (own !== undefined) return own;
  if (process.env.CI) throw new Error("no NATS answers, and none is installed: in CI nothing is skipped");
  console.warn("SKIPPED: no NATS with JetStream answers, and nats-server is not installed");
  return undefined;
}

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

async function startOwnNats(): Promise<string | undefined> {
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), "stayhook-nats-"));
  const server = spawn("nats-server", ["-js", "-a", "127.0.0.1", "-p", String(port), "-sd", directory], {
    stdio: "ignore",
  });
  const ended = Promise.race([once(server, "exit"), once(server, "error")]).catch(() => {});
  process.once("exit", () => {
    server.kill("SIGKILL");
    rmSync(directory, { recursive: true, force: true });
  });
  let over = false;
  void ended.then(() => {
    over = true;
  });
  const url = `nats://127.0.0.1:${port}`;
  while (!over) {
    if (await hasJetStream(url)) return url;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return undefined;
}
