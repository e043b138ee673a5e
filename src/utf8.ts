// Text as UTF-8. jsdom has no TextEncoder, so no module of this package may make one while it loads.

let encoder: TextEncoder | undefined;

export function encodeUtf8(text: string): Uint8Array<ArrayBuffer> {
  encoder ??= new TextEncoder();
  return encoder.encode(text);
}

let decoder: TextDecoder | undefined;

export function decodeUtf8(bytes: Uint8Array): string {
  decoder ??= new TextDecoder();
  return decoder.decode(bytes);
}
