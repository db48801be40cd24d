// The network as boxes in columns and lines between them: VMs, port groups, switches, uplinks, hosts, and the paths from the host
// that answers to the others. Only what is, without any position.

const kBoxes = 40;  // of a column; the table has all

export const kinds = ['vms', 'port-groups', 'switches', 'uplinks', 'hosts'];

// data: the store's; paths: as GET /v1/paths answers. Returns {columns: {kind: [{id, label, note, address}]}, links: [{from, to,
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
  const counts = counts_of(paths);
  const lanes = new Set(cluster?.tcp.peers.filter((peer) => peer.lanes_up > 0).map((peer) => peer.host));
  for (const host of hosts) {
    box('hosts', host.name, host.name, host.alive ? 'alive' : 'not alive', ['hosts', host.name]);
    if (self && host.name !== self) link(`hosts/${self}`, `hosts/${host.name}`, path_to(host.name, counts, lanes));
  }
  return { columns, links };
}

// How many connections take each path, for each host: Map of Maps.
function counts_of(paths) {
  const counts = new Map();
  for (const { path, peer_host: peer } of paths) {
    if (!counts.has(peer)) counts.set(peer, new Map());
    counts.get(peer).set(path, (counts.get(peer).get(path) ?? 0) + 1);
  }
  return counts;
}

// What most connections to the host take; without any, what they would: TCP if lanes to it are up.
function path_to(host, counts, lanes) {
  const [most] = [...counts.get(host) ?? []].sort((a, b) => b[1] - a[1]);
  if (most) return most[0];
  return lanes.has(host) ? 'tcp' : 'none';
}

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
