// Which addresses a network holds.
import { equal, test } from './harness.js';
import { holds } from '../../../ui/networks.js';

const held = (network, addresses) => addresses.filter((address) => holds(network, address));

test('a network holds its addresses and no others', () => {
  equal(held('10.0.0.0/24', ['10.0.0.0', '10.0.0.255', '10.0.1.0', '9.255.255.255', 'fd00::1']), ['10.0.0.0', '10.0.0.255']);
  equal(held('10.0.0.1', ['10.0.0.1', '10.0.0.2']), ['10.0.0.1']);
  equal(held('0.0.0.0/0', ['10.0.0.1', '255.255.255.255', '::1']), ['10.0.0.1', '255.255.255.255']);
  equal(held('fd00::/64', ['fd00::1', 'fd00:0:0:0:ffff::1', 'fd00:0:0:1::1', '10.0.0.1']), ['fd00::1', 'fd00:0:0:0:ffff::1']);
  equal(held('fd00::1', ['fd00:0:0:0:0:0:0:1', 'FD00::1', 'fd00::2']), ['fd00:0:0:0:0:0:0:1', 'FD00::1']);
});

test('what is half typed holds nothing', () => {
  equal(['10.0.0', '10.0.0.0/', 'fd00:', ':::', '', 'esx-02', '1::2::3', 'fd00::g'].filter((network) => holds(network, '10.0.0.1') || holds(network, 'fd00::1')), []);
});
