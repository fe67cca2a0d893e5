import { readFileSync } from 'node:fs';

export interface Asset {
  type: string;
  body: Buffer;
}

const FILES: readonly (readonly [path: string, file: string, type: string])[] = [
  ['/', 'index.html', 'text/html; charset=utf-8'],
  ['/page.css', 'page.css', 'text/css; charset=utf-8'],
  ['/main.js', 'main.js', 'text/javascript; charset=utf-8'],
];

/** The page's files by path, which the build puts there; nothing else can be asked for. */
export function loadAssets(): ReadonlyMap<string, Asset> {
  return new Map(
    FILES.map(([path, file, type]) => {
      return [path, { type, body: readFileSync(new URL(`./page/${file}`, import.meta.url)) }];
    }),
  );
}
