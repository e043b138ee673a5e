// Calls functions in another process over its IPC channel.
import { fork } from "node:child_process";
import { once } from "node:events";

/** Longest time for a call, in ms. */
const PATIENCE = 120_000;

// biome-ignore lint/suspicious/noExplicitAny: the arguments are those of the caller's own functions
type Functions = Readonly<Record<string, (...args: any[]) => unknown>>;

interface Call {
  readonly name: string;
  readonly args: readonly unknown[];
}

interface Answer {
  readonly value?: unknown;
  readonly error?: string;
}

/** A process with functions that can be called, one call at a time. */
export interface Callable<F extends Functions> {
  call<K extends keyof F & string>(name: K, ...args: Parameters<F[K]>): Promise<Awaited<ReturnType<F[K]>>>;
  end(): Promise<void>;
}

/** Starts a file that calls {@link answerCalls}, in a child process. The child ends with this process. */
export function start<F extends Functions>(file: string, ...args: readonly string[]): Callable<F> {
  return startWith<F>(undefined, file, ...args);
}

/** @param folder - the folder of another build, which the child gets as `stayhook` */
export function startWith<F extends Functions>(
  folder: string | undefined,
  file: string,
  ...args: readonly string[]
): Callable<F> {
  const hook = new URL("./other-package.ts", import.meta.url).href;
  const other = folder !== undefined && {
    execArgv: [...process.execArgv, "--import", hook],
    env: { ...process.env, BENCH_PACKAGE: folder },
  };
  const child = fork(new URL(file, import.meta.url), args, { ...other });
  const died = once(child, "exit").then(([code]): never => {
    throw new Error(`${file} ${args.join(" ")} ended with code ${code}`);
  });
  died.catch(() => {});
  return {
    async call(name, ...callArgs) {
      child.send({ name, args: callArgs } satisfies Call);
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_, reject) => {
        const message = `${file} ${args.join(" ")}: ${name} took longer than ${PATIENCE / 1000} s`;
        timer = setTimeout(() => reject(new Error(message)), PATIENCE);
      });
      const [answer] = (await Promise.race([once(child, "message"), died, late])) as [Answer];
      clearTimeout(timer);
      if (answer.error !== undefined) throw new Error(`${file} ${args.join(" ")}: ${answer.error}`);
      return answer.value as never;
    },
    async end() {
      child.disconnect();
      await died.catch(() => {});
    },
  };
}

/** Answers the calls of the parent process. This process ends with its parent. */
export function answerCalls(functions: Functions, onEnd: () => unknown = () => {}): void {
  process.on("message", async ({ name, args }: Call) => {
    try {
      process.send?.({ value: await functions[name]?.(...args) } satisfies Answer);
    } catch (error) {
      process.send?.({
        error: error instanceof Error ? String(error.stack) : String(error),
      } satisfies Answer);
    }
  });
  process.on("disconnect", async () => {
    await onEnd();
    process.exit();
  });
}
