// A visitor with one session over many connections, and so over several workers, who then sends too
// many requests.
const REQUESTS = 60;

/** What workers answered at this address. */
export async function visit(address) {
  const ask = (path, headers = {}) =>
    fetch(address + path, { headers: { ...headers, connection: 'close' } });
  const first = await ask('/visits');
  const [cookie] = first.headers.get('set-cookie').split(';');
  const pids = new Set([(await first.json()).pid]);
  let visits = 0;
  for (let i = 0; i < 20; i++) {
    const answer = await (await ask('/visits', { cookie })).json();
    pids.add(answer.pid);
    visits = answer.visits;
  }
  const answers = await Promise.all(Array.from({ length: REQUESTS }, () => ask('/limited')));
  const allowed = answers.filter(({ status }) => status === 200).length;
  const refused = answers.filter(({ status }) => status === 429).length;
  return { workers: pids.size, visits, allowed, refused };
}
