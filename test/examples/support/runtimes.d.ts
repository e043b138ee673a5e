// The parts of Bun's and Deno's types that examples/bun.ts and examples/deno.ts use.

declare namespace Bun {
  function serve(options: {
    readonly hostname?: string;
    readonly port: number;
    readonly routes: Readonly<Record<string, (request: Request) => Response | Promise<Response>>>;
  }): { stop(): Promise<void> };
}

declare namespace Deno {
  const env: { get(name: string): string | undefined };
  function serve(
    options: { readonly hostname?: string; readonly port: number },
    handler: (request: Request) => Response | Promise<Response>,
  ): { shutdown(): Promise<void> };
  function addSignalListener(signal: "SIGINT" | "SIGTERM", listener: () => void): void;
  function exit(): never;
}
