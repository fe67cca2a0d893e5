// One worker: an Express application whose sessions and limits all workers share.
import express from 'express';
import { rateLimit } from 'express-rate-limit';
import session from 'express-session';
import { openSync } from 'stepwell';
import { StepwellRateLimit } from 'stepwell/express-rate-limit';
import { StepwellSessionStore } from 'stepwell/express-session';

export function createApp(url) {
  const limits = openSync(url, { store: 'limits' });
  const sessions = openSync(url, { store: 'sessions' });
  const app = express();

  app.get('/limited', rateLimit({
    limit: 20,
    windowMs: 60_000,
    legacyHeaders: false,
    store: new StepwellRateLimit(limits),
  }), (_, response) => response.json({ pid: process.pid }));

  app.use(session({
    secret: 'a secret of your own',
    resave: false,
    saveUninitialized: false,
    cookie: { maxAge: 30 * 60_000 },
    store: new StepwellSessionStore(sessions),
  }));
  app.get('/visits', (request, response) => {
    request.session.visits = (request.session.visits ?? 0) + 1;
    response.json({ pid: process.pid, visits: request.session.visits });
  });
  return app;
}
