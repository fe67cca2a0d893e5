/** A process that works off the jobs of a peer, and tells how old each one was when it began. */
import { type Data, type PeerName, peerOf } from './peers.ts';

const [name, place, count] = process.argv.slice(2);
const peer = peerOf(name as PeerName, JSON.parse(place));
process.on('disconnect', () => process.exit());

const tell = ({ at }: Data) => {
  process.send?.(Number(process.hrtime.bigint() - BigInt(at)));
};
process.send?.('ready');
await peer.workOff(Number(count), 1, tell);
await peer.close();
process.exit();
