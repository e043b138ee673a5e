/** The place in the order of records up to which a pass has checked all of them, though it checks several at once. */
export class Checkpoint {
  readonly #begun: { readonly ref: string; done: boolean }[] = [];
  /** All records up to this `ref` are done; `null` at the beginning. */
  after: string | null;

  constructor(after: string | null) {
    this.after = after;
  }

  /** @returns a function to call when the record is done; until then, the checkpoint stays before the record */
  begin(ref: string): () => void {
    const step = { ref, done: false };
    this.#begun.push(step);
    return () => {
      step.done = true;
      while (this.#begun[0]?.done) this.after = this.#begun.shift()!.ref;
    };
  }
}
