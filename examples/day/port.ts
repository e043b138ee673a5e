import { createServer } from "node:net";

/**
 * A port that is free, and that will be so again when its process was killed: none of those that systems hand
 * out by themselves, from 32768 on.
 */
export async function choosePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
