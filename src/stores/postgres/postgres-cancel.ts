import type { PoolClient } from "pg";

/** The code of a cancel request: https://www.postgresql.org/docs/current/protocol-message-formats.html. */
const CANCEL = 80_877_102;
/** How long the request may take, ms. */
const WITHIN = 1000;

interface Wired {
  readonly processID?: unknown;
  readonly secretKey?: unknown;
  readonly host?: unknown;
  readonly port?: unknown;
}

/**
 * Asks the server to end the statement that a client waits for. Without the request, a statement that waits for a lock stays
 * on the server when its client has gone. A cancel request works behind PgBouncer, too. Never rejects.
 */
export async function cancelStatement(client: PoolClient): Promise<void> {
  const { processID, secretKey, host, port } = client as unknown as Wired;
  if (typeof processID !== "number" || typeof secretKey !== "number" || typeof host !== "string") return;
  try {
    const { connect } = await import("node:net");
    const request = new DataView(new ArrayBuffer(16));
    [16, CANCEL, processID, secretKey].forEach((value, index) => {
      request.setInt32(index * 4, value);
    });
    const socket = host.startsWith("/")
      ? connect(`${host}/.s.PGSQL.${String(port)}`)
      : connect(Number(port), host);
    await new Promise<void>((resolve) => {
      socket.setTimeout(WITHIN, () => socket.destroy());
      socket.on("error", () => {}).on("close", () => resolve());
      // The server answers by closing the connection.
      socket.end(new Uint8Array(request.buffer));
    });
  } catch {
    // The statement ends when its lock is free.
  }
}
