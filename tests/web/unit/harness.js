// Tests of the page's modules, in the browser: test() collects, run() carries out and reports.
const cases = [];

export const test = (name, body) => cases.push([name, body]);

export function equal(actual, expected) {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${a} is not ${b}`);
}

export async function run() {
  const results = [];
  for (const [name, body] of cases) {
    try {
      await body();
      results.push([name, '']);
    } catch (error) {
      results.push([name, `${error.stack ?? error}`]);
    }
  }
  return results;
}
