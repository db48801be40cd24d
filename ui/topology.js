// The network as boxes in columns and lines between them: VMs, port groups, switches, uplinks, hosts, and the paths between hosts.
// Only what is, without any position.

const kBoxes = 40;  // of a column; the table has all

export const kinds = ['vms', 'port-groups', 'switches', 'uplinks', 'hosts'];

// data: the store's; paths: by host, as GET /v1/paths/summary answers there. Returns {columns: {kind: [{id, label, note, address}]}, links: [{from, to,
// kind}]}; kind of a link: 'network', or a path ('tcp', 'hca', 'none').
export function topology_of({ hosts, dvs, vms, cluster }, paths) {
  const columns = Object.fromEntries(kinds.map((kind) => [kind, []]));
  const links = [];
  const box = (kind, id, label, note, address) => columns[kind].push({ id: `${kind}/${id}`, label, note, address });
  const link = (from, to, kind = 'network') => links.push({ from, to, kind });
  for (const vm of [...vms].sort((a, b) => a.host.localeCompare(b.host) || a.name.localeCompare(b.name))) {
    box('vms', vm.name, vm.name, vm.host, ['vms', vm.name]);
    if (vm.adapter) link(`vms/${vm.name}`, `port-groups/${vm.adapter.dvs}/${vm.adapter.portgroup}`);
  }
  for (const each of dvs) {
    box('switches', each.name, each.name, each.version, ['networking', each.name]);
    for (const { name, vlan } of each.portgroups) {
      box('port-groups', `${each.name}/${name}`, name, vlan ? `VLAN ${vlan}` : each.name, ['networking', each.name, 'configure', 'port-groups']);
      link(`port-groups/${each.name}/${name}`, `switches/${each.name}`);
    }
    for (const { host, uplinks } of each.members) {
      for (const [slot, nic] of Object.entries(uplinks)) {
        if (!nic) continue;
        box('uplinks', `${each.name}/${host}/${slot}`, slot, `${host} ${nic}`, ['networking', each.name, 'configure', 'uplinks']);
        link(`switches/${each.name}`, `uplinks/${each.name}/${host}/${slot}`);
        link(`uplinks/${each.name}/${host}/${slot}`, `hosts/${host}`);
      }
    }
  }
  const self = hosts.find((host) => host.self)?.name;
  const counts = counts_between(paths);
  const lanes = new Set(cluster?.tcp.peers.filter((peer) => peer.lanes_up > 0).map((peer) => peer.host));
  for (const host of hosts) {
    box('hosts', host.name, host.name, host.alive ? 'alive' : 'not alive', ['hosts', host.name]);
    if (self && host.name !== self) link(`hosts/${self}`, `hosts/${host.name}`, most(counts.get(pair_of(self, host.name))) ?? (lanes.has(host.name) ? 'tcp' : 'none'));
  }
  const known = new Set(hosts.map(({ name }) => name));
  for (const [pair, taken] of counts) {
    const ends = pair.split(' ');
    if (!ends.includes(self) && ends.every((name) => known.has(name))) link(`hosts/${ends[0]}`, `hosts/${ends[1]}`, most(taken));
  }
  return { columns, links };
}

// Two hosts in either order. A name has no space.
const pair_of = (a, b) => [a, b].sort().join(' ');

// How many connections take each path, for each pair of hosts: Map of Maps.
function counts_between(paths) {
  const counts = new Map();
  for (const [host, list] of paths) {
    for (const { path, peer_host: peer, connections } of list) {
      if (!peer || peer === host) continue;
      const pair = pair_of(host, peer);
      if (!counts.has(pair)) counts.set(pair, new Map());
      counts.get(pair).set(path, (counts.get(pair).get(path) ?? 0) + connections);
    }
  }
  return counts;
}

// The path that most connections take; undefined: there is none.
const most = (taken) => [...taken ?? []].sort((a, b) => b[1] - a[1])[0]?.[0];

// The boxes of a column that are drawn, and how many are not.
export const drawn = (boxes) => ({ boxes: boxes.slice(0, kBoxes), more: Math.max(0, boxes.length - kBoxes) });

// Ids of all that is linked with a box, along the columns in both directions: a VM's port group, its switch, its uplinks, hosts.
export function linked_with(id, { links }) {
  const along = (start, from, to) => {
    const found = new Set([start]);
    for (const each of found) {
      for (const link of links) if (link.kind === 'network' && link[from] === each) found.add(link[to]);
    }
    return found;
  };
  return new Set([...along(id, 'from', 'to'), ...along(id, 'to', 'from')]);
}
