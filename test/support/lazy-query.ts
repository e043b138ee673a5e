/** Makes a query as ORMs do: it runs when something awaits it, and not before. It is no `Promise`. */
export function lazyQuery<T>(run: () => T | Promise<T>): PromiseLike<T> {
  return {
    // biome-ignore lint/suspicious/noThenProperty: the test is about thenables
    then: (resolve, reject) => Promise.resolve().then(run).then(resolve, reject),
  };
}
