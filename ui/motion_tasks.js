// Motions of this session as tasks: those that run when the page comes, and those that begin later.
const kStates = { runs: 'running', done: 'done', failed: 'refused' };

const kEndedTasks = 20;

export class MotionTasks {
  #known = null;  // ids of listed motions that are no tasks; null: nothing was told yet
  #tasks = new Map();

  // `motions`: as GET /v1/motions answers.
  take(motions, now_ms = Date.now()) {
    const is_no_task = this.#known === null ? ({ state }) => state !== 'runs' : ({ id }) => this.#known.has(id);
    this.#known = new Set(motions.filter(is_no_task).map(({ id }) => id));
    for (const { id, vm, to, state, error } of motions) {
      if (this.#known.has(id)) continue;
      const task = this.#tasks.get(id) ?? { title: 'Migrate', target: `${vm} → ${to}`, at_ms: now_ms };
      this.#tasks.set(id, { ...task, state: kStates[state] ?? state, trouble: error || undefined });
    }
    this.#end_absent(new Set(motions.map(({ id }) => id)));
    this.#forget_oldest();
  }

  // The daemon was restarted, or another motion of the VM has begun since.
  #end_absent(listed) {
    for (const [id, task] of this.#tasks) {
      if (task.state === 'running' && !listed.has(id)) {
        this.#tasks.set(id, { ...task, state: 'ended', trouble: 'The daemon no longer lists it: see where the VM is.' });
      }
    }
  }

  #forget_oldest() {
    const ended = [...this.#tasks].filter(([, { state }]) => state !== 'running');
    for (const [id] of ended.slice(0, -kEndedTasks)) {
      this.#tasks.delete(id);
      this.#known.add(id);
    }
  }

  get list() {
    return [...this.#tasks.values()];
  }
}
