// What pm2 starts several times. Workers of a cluster listen at one port; the pool tells which.
import { openSync } from 'stepwell';
import { createApp } from './app.mjs';

const { POOL } = process.env;
const server = createApp(POOL).listen(0, '127.0.0.1', () => {
  openSync(POOL, { store: 'ports' }).set(String(process.pid), String(server.address().port));
});
