import { randomUUID } from "node:crypto";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { describe, onTestFinished, test } from "vitest";
import { natsUrl } from "../../support/nats-server.ts";
import { proveEngine } from "./proof.ts";

const url = await natsUrl();

describe.skipIf(url === undefined && !process.env.CI)("nats-jetstream.ts", () => {
  test("handles each event once, one at a time of a record, and keeps what failed", {
    timeout: 120_000,
  }, async () => {
    const STREAM = `stayhook-test-${randomUUID()}`;
    const connection = await connect({ servers: url as string });
    const manager = await jetstreamManager(connection);
    onTestFinished(async () => {
      for (const name of [STREAM, `${STREAM}-dead`]) await manager.streams.delete(name).catch(() => {});
      await connection.close();
    });
    await proveEngine({
      file: "examples/engines/nats-jetstream.ts",
      env: { NATS_URL: url, STREAM },
      async sendJunk(id) {
        await jetstream(connection).publish(`${STREAM}.lane.3`, `{"eventId":"no notification, ${id}"}`);
      },
      async deadLetters() {
        const { state } = await manager.streams.info(`${STREAM}-dead`);
        const found = Array.from({ length: state.messages }, (_, i) =>
          manager.streams.getMessage(`${STREAM}-dead`, { seq: i + 1 }),
        );
        return (await Promise.all(found)).map((message) => message?.string() ?? "");
      },
    });
  });
});
