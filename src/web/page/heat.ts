import { colour } from './dom.ts';

type Rgb = [number, number, number];

/** Colours for how full something is, from the style sheet as it is now. */
export function heat(): (fill: number) => string {
  const [empty, low, high, full] = ['empty', 'low', 'high', 'full'].map((name) => {
    return rgb(colour(`cell-${name}`));
  });
  return (fill) => {
    if (fill <= 0) return text(empty);
    if (fill < 0.75) return text(between(low, high, fill / 0.75));
    return text(between(high, full, (Math.min(1, fill) - 0.75) / 0.25));
  };
}

function rgb(hex: string): Rgb {
  const number = Number.parseInt(hex.slice(1), 16);
  return [number >> 16, (number >> 8) & 0xff, number & 0xff];
}

function between(from: Rgb, to: Rgb, share: number): Rgb {
  return from.map((part, i) => Math.round(part + (to[i] - part) * share)) as Rgb;
}

function text(parts: Rgb): string {
  return `rgb(${parts.join(' ')})`;
}
