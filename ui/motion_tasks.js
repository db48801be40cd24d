// Motions of this session as tasks: those that run when the page comes, and those that begin later.
const kStates = { runs: 'running', done: 'done', failed: 'refused' };

export class MotionTasks {
  #known = null;  // ids of motions that had ended before; null: nothing was told yet
  #tasks = new Map();

  // `motions`: as GET /v1/motions answers.
  take(motions, now_ms = Date.now()) {
    this.#known ??= new Set(motions.filter(({ state }) => state !== 'runs').map(({ id }) => id));
    for (const { id, vm, to, state, error } of motions) {
      if (this.#known.has(id)) continue;
      const task = this.#tasks.get(id) ?? { title: 'Migrate', target: `${vm} → ${to}`, at_ms: now_ms };
      this.#tasks.set(id, { ...task, state: kStates[state] ?? state, trouble: error || undefined });
    }
  }

  get list() {
    return [...this.#tasks.values()];
  }
}
