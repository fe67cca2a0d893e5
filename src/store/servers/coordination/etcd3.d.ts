/**
 * The part of etcd3 that is used here. It is an optional peer, and the project is built and checked
 * without it, too.
 */
declare module 'etcd3' {
  interface CallOptions {
    deadline: number;
  }

  interface Lease {
    grant(): Promise<string>;
    keepaliveOnce(options: CallOptions): Promise<unknown>;
    revoke(options: CallOptions): Promise<void>;
  }

  interface Put {
    value(text: string): Put;
    lease(id: string): Put;
  }

  interface Comparison {
    then(put: Put): Comparison;
    options(options: CallOptions): Comparison;
    commit(): Promise<{ succeeded: boolean; header: { revision: string } }>;
  }

  export class Etcd3 {
    constructor(options: { hosts: string[]; dialTimeout: number });
    readonly maintenance: { status(options: CallOptions): Promise<unknown> };
    lease(ttl: number, options: CallOptions & { autoKeepAlive: boolean }): Lease;
    put(key: string): Put;
    if(key: string, target: 'Create', comparison: '==', value: number): Comparison;
    close(): void;
  }
}
