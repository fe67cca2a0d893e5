/** The part of redis-parser 3 that the gateway uses; the package ships no types. */
declare module 'redis-parser' {
  export interface ParserOptions {
    returnBuffers?: boolean;
    returnReply(reply: unknown): void;
    returnError(error: Error): void;
    returnFatalError?(error: Error): void;
  }

  export default class Parser {
    constructor(options: ParserOptions);
    execute(bytes: Buffer): void;
  }
}
