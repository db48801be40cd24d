// The parser of server-sent events: the stream may be cut at every byte.
import { equal, test } from './harness.js';
import { EventParser } from '../../../ui/events.js';

const stream = ': silence\n\nevent: hello\ndata: {"host":"esx-01"}\n\nevent: stats\ndata: {"a":\ndata: 1}\n\n:\n\ndata: x\r\n\r\n';
const told = [{ event: 'hello', data: '{"host":"esx-01"}' }, { event: 'stats', data: '{"a":\n1}' }, { event: 'message', data: 'x' }];

test('a whole stream', () => equal(new EventParser().feed(stream), told));

test('a stream cut anywhere', () => {
  for (let cut = 0; cut <= stream.length; cut += 1) {
    const parser = new EventParser();
    equal([...parser.feed(stream.slice(0, cut)), ...parser.feed(stream.slice(cut))], told);
  }
});

test('a stream byte by byte', () => {
  const parser = new EventParser();
  equal([...stream].flatMap((byte) => parser.feed(byte)), told);
});

test('an event without its end is not told', () => equal(new EventParser().feed('event: hello\ndata: {}\n'), []));
