export { type MeterLike, type ObservableLike, type ObserveOptions, observe } from './observe.ts';
