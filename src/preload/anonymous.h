// Anonymous memory that the program shares (MAP_SHARED | MAP_ANONYMOUS): with the children that it forks
// later, or with nobody.
//
// The kernel keeps it in a file that this library cannot open, so the device cannot have it. It moves to a
// memory file instead, which the program then shares with its children in the same way. A process that has
// the memory already would keep the old file. So memory that was there at a fork of this process stays where
// it is. Thread: under lock.
#pragma once

#include <stdbool.h>

#include "preload/maps.h"

// Whether the mapping is such memory and belongs to this process alone.
bool anonymous_is_movable(const struct mapping* mapping);

// Moves it. Returns 0 or an errno value: EFAULT if parts of it are mapped separately, ENOMEM.
int anonymous_move(const struct mapping* mapping);

// Other processes may have the memory that there is now: called before a fork, and when the device is opened
// after one.
void anonymous_is_inherited(void);

// In the child of a fork, whose files are its own from now on.
void anonymous_forget(void);
