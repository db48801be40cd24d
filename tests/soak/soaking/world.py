"""What happens in a soak: guests come, go and die, connect to each other, and the paths between them are cut.

One seeded generator makes all choices, so a seed repeats them; their effect on the daemons depends on time. A connection
may fail only after an event that may end it, and exactly-once delivery must always hold.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from fleet.fleet import Fleet
from fleet.until import until
from soaking.guest import Event, Guest

_BLOCKS = (64, 4096, 65536, 262144)
_CUT_S = (0.05, 2.5)  # shorter than the QPs' timeouts and retries can bridge, which is 34 s
_BETWEEN_CUTS_S = 4.0  # after a path is back
_PROGRESS_GUARD_S = 45.0


@dataclass
class Slot:
    """A VM's place: its name, its GID, and its guest if the VM is on."""

    name: str
    gid: int
    comes_and_goes: bool  # its VM is deleted and made again on any host
    host: int | None = None  # 1 or 2; None: there is no VM now
    socket: str = ""
    guest: Guest | None = None


@dataclass
class Connection:
    """A connection between two guests; `excuse` is the event that may end it."""

    number: int
    asker: Slot
    answerer: Slot
    excuse: str | None = None
    end_at: float | None = None

    @property
    def slots(self) -> tuple[Slot, Slot]:
        """The slots of both ends."""
        return self.asker, self.answerer

    def between(self, guest: Guest) -> bool:
        """Whether one of its ends belongs to this guest."""
        return guest in (self.asker.guest, self.answerer.guest)


class World:
    """`stay` VMs on each of two hosts, and `come_and_go` VMs that are deleted and made again."""

    def __init__(self, fleet: Fleet, seed: int, stay: int, come_and_go: int, connections_max: int, pace_ms: int) -> None:
        self.fleet = fleet
        self.wrong: list[str] = []  # errors, as sentences
        self.done: Counter[str] = Counter()  # how often each event has happened
        self.rounds = Counter[str]()  # of ended connections, by "local" and "remote"
        self._random = random.Random(seed)
        self._connections_max = connections_max
        self._pace_ms = pace_ms
        self._slots = [Slot(f"Stay-{number:02d}", number, False) for number in range(1, 2 * stay + 1)]
        self._slots += [Slot(f"Guest-{number:02d}", 100 + number, True) for number in range(1, come_and_go + 1)]
        for index, slot in enumerate(slot for slot in self._slots if not slot.comes_and_goes):
            self._create(slot, 1 + index % 2)
        self._connections: dict[int, Connection] = {}
        self._last_number = 0
        self._heal: tuple[float, Callable[[], None]] | None = None
        self._next_cut = 0.0
        # How often each is tried. A choice that is impossible now is skipped.
        self._choices: list[tuple[int, Callable[[], bool]]] = [
            (10, self._power_on), (14, self._connect), (4, self._drop), (3, self._kill), (2, self._leave), (6, self._stir),
            (2, self._rebind), (2, self._spare), (2, self._cut_ruleset), (1, self._lose_packets), (1, self._link_down),
            (1, self._create_vm), (1, self._delete_vm)]

    def fill(self) -> None:
        """Starts all guests and makes every second connection."""
        while self._create_vm() or self._power_on():
            self.attend()
        while len(self._connections) < self._connections_max // 2 and self._connect():
            self.attend()

    def step(self) -> None:
        """Causes one event, then reads the guests' reports and does what is due."""
        choice = self._random.choices([act for _, act in self._choices], [weight for weight, _ in self._choices])[0]
        if choice():
            self.done[choice.__name__.lstrip("_")] += 1
        self.attend()

    def attend(self) -> None:
        """Reads the guests' reports, repairs what was cut, and ends connections whose end is due."""
        now = time.monotonic()
        if self._heal is not None and now >= self._heal[0]:
            self._mend()
        for slot in self._slots:
            if slot.guest is not None:
                for event in slot.guest.events():
                    self._hear(event)
        for connection in [one for one in self._connections.values() if one.end_at is not None and now >= one.end_at]:
            self._end(connection)

    def clear(self) -> None:
        """Checks that every connection without an excuse works. Then all guests leave or die."""
        self._mend()
        self._expect_progress()
        for slot in self._slots:
            if slot.guest is not None:
                self._excuse(slot.guest, "the guest is gone")
                if self._random.random() < 0.5:
                    self._end_connections(slot.guest)
                    slot.guest.leave()
                else:
                    slot.guest.kill()
                slot.guest = None
        self._connections.clear()
        for slot in self._slots:
            if slot.comes_and_goes and slot.host is not None:
                self._delete(slot)

    def close(self) -> None:
        """Kills the guests."""
        for slot in self._slots:
            if slot.guest is not None:
                slot.guest.kill()
                slot.guest = None

    # --- Reports of guests ---

    def _hear(self, event: Event) -> None:
        connection = self._connections.get(event.connection)
        if event.kind == "wrong":
            self.wrong.append(f"{event.guest.name}, connection {event.connection}: {event.text}")
        elif connection is not None and connection.excuse is None:
            self.wrong.append(f"{event.guest.name}, connection {event.connection} "
                              f"({connection.asker.name} to {connection.answerer.name}) was lost though nothing had happened "
                              f"to it: {event.text}")
            connection.excuse = "it was lost"
        self.done[f"said {event.kind}"] += 1
        if connection is not None and connection.end_at is None:
            connection.end_at = time.monotonic()

    def _expect_progress(self) -> None:
        """Each connection without an excuse must end a round within the guard."""
        def rounds() -> dict[int, int]:
            self.attend()
            found: dict[int, int] = {}
            for slot in self._slots:
                if slot.guest is not None:
                    words = [int(word) for word in slot.guest.ask("rounds", "rounds")]
                    found.update({number: count for number, count in zip(words[::2], words[1::2])
                                  if self._connections[number].asker is slot})
            return found
        before = rounds()
        deadline = time.monotonic() + _PROGRESS_GUARD_S
        while True:
            now = rounds()
            stuck = [number for number, count in before.items()
                     if number in self._connections and self._connections[number].excuse is None
                     and now.get(number, count) == count]
            if not stuck:
                return
            if time.monotonic() > deadline:
                names = [f"{self._connections[number].asker.name} to {self._connections[number].answerer.name} "
                         f"in round {before[number]}" for number in stuck]
                self.wrong.append(f"connections stand still for {_PROGRESS_GUARD_S:g} s: {'; '.join(names)}")
                return
            time.sleep(0.1)

    # --- Possible events. True: it happened. ---

    def _power_on(self) -> bool:
        slot = self._choose([slot for slot in self._slots if slot.host is not None and slot.guest is None])
        if slot is None:
            return False
        slot.guest = Guest(slot.name, slot.socket, slot.gid, self._random.getrandbits(32), self._pace_ms)
        return True

    def _connect(self) -> bool:
        on = self._on()
        if len(on) < 2 or len(self._connections) >= self._connections_max:
            return False
        asker, answerer = self._random.sample(on, 2)
        self._last_number += 1
        number, block = self._last_number, self._random.choice(_BLOCKS)
        made = {slot.name: " ".join(slot.guest.ask(f"make {number} {block}", "made")[1:]) for slot in (asker, answerer)}
        self._connections[number] = Connection(number, asker, answerer)
        for slot, role, other in ((answerer, "answer", asker), (asker, "ask", answerer)):
            slot.guest.ask(f"join {number} {role} {other.gid} {made[other.name]}", "joined")
        return True

    def _drop(self) -> bool:
        connection = self._choose(list(self._connections.values()))
        if connection is None:
            return False
        self._end(connection)
        return True

    def _kill(self) -> bool:
        slot = self._choose(self._on())
        if slot is None:
            return False
        self._excuse(slot.guest, "a guest was killed")
        slot.guest.kill()
        slot.guest = None
        return True

    def _leave(self) -> bool:
        slot = self._choose(self._on())
        if slot is None:
            return False
        self._excuse(slot.guest, "a guest left")
        slot.guest.leave()
        slot.guest = None
        return True

    def _stir(self) -> bool:
        return self._tell(f"stir {self._random.randint(1, 20)}", "stirred")

    def _spare(self) -> bool:
        return self._tell(f"spare {self._random.choice((1, 1, 1, 20))}", "spared")

    def _rebind(self) -> bool:
        slot = self._choose(self._on())
        if slot is None:
            return False
        self._excuse(slot.guest, "its GID was unbound")
        slot.guest.ask(f"rebind {self._random.randint(1, 500)}", "rebound")
        return True

    def _cut_ruleset(self) -> bool:
        host = self.fleet[self._random.randint(1, 2)]
        ruleset = ("network", "firewall", "ruleset", "set", "-r", "pvrdma", "-e")
        return self._cut(lambda: host.ctl_text(*ruleset, "false"), lambda: host.ctl_text(*ruleset, "true"))

    def _lose_packets(self) -> bool:
        """Only PVRDMA's packets, because every change must reach the store."""
        name = f"esx-{self._random.randint(1, 2):02d}"
        return self._cut(lambda: self.fleet.network.block(name, True), lambda: self.fleet.network.block(name, False))

    def _link_down(self) -> bool:
        slot = self._choose([slot for slot in self._slots if slot.host is not None and not slot.comes_and_goes])
        if slot is None:
            return False
        link = ("adapter", "set", slot.name, "--link")
        host = self.fleet[slot.host]
        return self._cut(lambda: host.ctl_text(*link, "down"), lambda: host.ctl_text(*link, "up"))

    def _create_vm(self) -> bool:
        slot = self._choose([slot for slot in self._slots if slot.host is None])
        if slot is None:
            return False
        self._create(slot, self._random.randint(1, 2))
        return True

    def _delete_vm(self) -> bool:
        slot = self._choose([slot for slot in self._slots if slot.comes_and_goes and slot.host is not None])
        if slot is None:
            return False
        if slot.guest is not None:
            self._excuse(slot.guest, "its VM was deleted")
            slot.guest.kill()
            slot.guest = None
        self._delete(slot)
        return True

    # --- Helpers ---

    def _choose(self, among: list) -> object:
        return self._random.choice(among) if among else None

    def _on(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.guest is not None]

    def _tell(self, command: str, answer: str) -> bool:
        slot = self._choose(self._on())
        if slot is None:
            return False
        slot.guest.ask(command, answer)
        return True

    def _cut(self, cut: Callable[[], object], mend: Callable[[], object]) -> bool:
        now = time.monotonic()
        if self._heal is not None or now < self._next_cut:
            return False
        cut()
        self._heal = (now + self._random.uniform(*_CUT_S), mend)
        return True

    def _mend(self) -> None:
        if self._heal is not None:
            self._heal[1]()
            self._heal = None
            self._next_cut = time.monotonic() + _BETWEEN_CUTS_S

    def _excuse(self, guest: Guest, why: str) -> None:
        """From now on the guest's connections may fail. For a while, their other ends find that out by
        themselves."""
        for connection in self._connections.values():
            if connection.between(guest) and connection.excuse is None:
                connection.excuse = why
                wait_s = 45 if self._random.random() < 0.1 else self._random.uniform(0, 4)
                connection.end_at = time.monotonic() + wait_s

    def _end_connections(self, guest: Guest) -> None:
        for connection in [one for one in self._connections.values() if one.between(guest)]:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        """Both ends drop the connection, and their numbers of rounds must agree."""
        del self._connections[connection.number]
        rounds = {}
        for slot in connection.slots:
            if slot.guest is not None and self._has(slot.guest, connection.number):
                rounds[slot.name] = int(slot.guest.ask(f"drop {connection.number}", "dropped")[1])
        asked, answered = (rounds.get(slot.name) for slot in connection.slots)
        if asked is None or answered is None:
            return
        kind = "local" if connection.asker.host == connection.answerer.host else "remote"
        self.rounds[kind] += asked
        if not asked <= answered <= asked + 1:
            self.wrong.append(f"connection {connection.number}: {connection.asker.name} ended {asked} rounds, but "
                              f"{connection.answerer.name} saw {answered}")

    def _has(self, guest: Guest, number: int) -> bool:
        """False if the slot has another guest than when the connection was made."""
        return str(number) in guest.ask("rounds", "rounds")[::2]

    def _create(self, slot: Slot, host: int) -> None:
        shown = self.fleet.define_vm(slot.name, host)
        slot.host, slot.socket = host, shown["adapter"]["socket"]
        until(f"{slot.name} is served", lambda: any(adapter["name"] == slot.name
                                                    for adapter in self.fleet[host].ctl("adapter", "list")))

    def _delete(self, slot: Slot) -> None:
        host = self.fleet[slot.host]
        until(f"{slot.name} is off", lambda: host.ctl("vm", "get", slot.name)["power"] == "off")
        host.ctl_text("vm", "delete", slot.name)
        until(f"{slot.name}'s adapter is gone", lambda: all(adapter["name"] != slot.name
                                                            for adapter in host.ctl("adapter", "list")))
        slot.host = None
