const CR = 13;
const HYPHEN = 45;
const DIGIT_ZERO = 48;

/** Cuts bytes that are known to be whole, valid requests. Arguments are views of the bytes. */
export class RequestCutter {
  #at = 0;

  /** Adds the requests; null and empty arrays are none. */
  cut(bytes: Buffer, requests: (readonly Buffer[])[]): void {
    const { length } = bytes;
    this.#at = 0;
    while (this.#at < length) {
      const count = this.#number(bytes);
      if (count <= 0) continue;
      const request: Buffer[] = new Array(count);
      for (let i = 0; i < count; i++) {
        const size = this.#number(bytes);
        request[i] = bytes.subarray(this.#at, this.#at + size);
        this.#at += size + 2;
      }
      requests.push(request);
    }
  }

  /** The number of a header line, behind its type; goes on behind its line. */
  #number(bytes: Buffer): number {
    let at = this.#at + 1;
    if (bytes[at] === HYPHEN) {
      this.#at = bytes.indexOf(CR, at) + 2;
      return -1;
    }
    let number = 0;
    for (let byte = bytes[at]; byte !== CR; byte = bytes[++at]) {
      number = number * 10 + byte - DIGIT_ZERO;
    }
    this.#at = at + 2;
    return number;
  }
}
