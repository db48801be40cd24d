// Values as people read them.

export const yes = (flag) => (flag ? 'Yes' : 'No');

export function speed(mbps) {
  if (!mbps) return '--';
  return mbps >= 1000 ? `${mbps / 1000} Gbit/s` : `${mbps} Mbit/s`;
}

export const nicSpeed = (nic) => (nic.link_up ? (nic.speed_mbps ? speed(nic.speed_mbps) : 'Up') : 'Down');

export function memory(mib) {
  return mib >= 1024 && mib % 1024 === 0 ? `${mib / 1024} GiB` : `${mib} MiB`;
}

export function rate(bits) {
  if (bits === undefined || bits === null) return '--';
  if (bits > 0 && bits < 1e5) return `${(bits / 1e3).toFixed(1)} kbit/s`;
  return bits >= 1e9 ? `${(bits / 1e9).toFixed(1)} Gbit/s` : `${(bits / 1e6).toFixed(1)} Mbit/s`;
}

export const count = (number) => number.toLocaleString('en');

// "1 port group", "2 port groups".
export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;

// How often something happens in a second.
export function frequency(times) {
  if (times === undefined) return '--';
  return times > 0 && times < 10 ? times.toFixed(1) : count(Math.round(times));
}

// Of memory and files.
export function bytes(count) {
  if (count === undefined || count === null) return '--';
  if (count < 1024) return `${count} B`;
  const power = Math.min(Math.floor(Math.log2(count) / 10), 4);
  return `${(count / 1024 ** power).toFixed(1)} ${['KiB', 'MiB', 'GiB', 'TiB'][power - 1]}`;
}

export const ms = (us) => `${(us / 1000).toFixed(1)} ms`;

export const percent = (part, whole) => (whole > 0 ? `${Math.floor((100 * part) / whole)} %` : '--');

export function dateAndTime(ms) {
  const date = new Date(ms);
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, '0')).join('-');
  return `${day} ${timeOfDay(ms)}`;
}

export const timeOfDay = (ms) => new Date(ms).toTimeString().slice(0, 8);

export const ports = (rules, direction) =>
  rules.filter((rule) => rule.direction === direction)
    .map(({ port_begin: begin, port_end: end }) => (begin === end ? `${begin}` : `${begin}-${end}`)).join(', ') || '--';

// A word of a command line for people to copy into a shell.
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);

// A cell of a CSV file. A quote in front keeps spreadsheets from taking it for a formula.
export function csvCell(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}
