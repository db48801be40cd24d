// Addresses and networks, as the firewall's ruleset has them: "10.0.0.1", "fd00::1", "10.0.0.0/24".

// {bits, value}; undefined: it is not an address.
function parse(address) {
  const v4 = address.match(/^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/);
  if (v4) return { bits: 32, value: v4.slice(1).reduce((sum, part) => sum * 256n + BigInt(part), 0n) };
  const [head, tail, more] = address.split('::').map((side) => side.split(':').filter(Boolean));
  if (!head || more) return undefined;
  const groups = tail === undefined ? head : [...head, ...Array(Math.max(0, 8 - head.length - tail.length)).fill('0'), ...tail];
  if (groups.length !== 8 || !groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return undefined;
  return { bits: 128, value: groups.reduce((sum, group) => sum * 65536n + BigInt(`0x${group}`), 0n) };
}

// Whether the network, or the single address, has this address.
export function holds(network, address) {
  const [base, length] = network.split('/');
  const [own, asked] = [parse(base), parse(address)];
  if (!own || !asked || own.bits !== asked.bits) return false;
  if (length !== undefined && !(/^\d{1,3}$/.test(length) && Number(length) <= own.bits)) return false;
  const free = BigInt(own.bits - Number(length ?? own.bits));
  return own.value >> free === asked.value >> free;
}
