/** How far a pass has come through what is in order, though several are under way at once. */
export class Place {
  readonly #begun: { readonly ref: string; done: boolean }[] = [];
  /** All up to it are done. */
  after: string | null;

  constructor(after: string | null) {
    this.after = after;
  }

  /** @returns what is to be called when this one is done; without it, the place stays before it */
  begin(ref: string): () => void {
    const step = { ref, done: false };
    this.#begun.push(step);
    return () => {
      step.done = true;
      while (this.#begun[0]?.done) this.after = this.#begun.shift()!.ref;
    };
  }
}
