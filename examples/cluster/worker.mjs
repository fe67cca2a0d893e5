// pm2 starts this several times. The workers share one port, and store its number in the pool.
import { openSync } from 'stepwell';
import { createApp } from './app.mjs';

const { POOL } = process.env;
const server = createApp(POOL).listen(0, '127.0.0.1', () => {
  openSync(POOL, { store: 'ports' }).set(String(process.pid), String(server.address().port));
});
