#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "preload/raw.h"

void log_line(bool always, const char* format, ...) {
  if (!always && getenv("PVRDMA_LOG") == NULL) return;
  const int saved = errno;
  char line[512];
  int length = snprintf(line, sizeof line, "pvrdma: ");
  va_list values;
  va_start(values, format);
  length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, values);
  va_end(values);
  if (length > (int)sizeof line - 2) length = (int)sizeof line - 2;
  line[length++] = '\n';
  (void)!syscall(SYS_write, STDERR_FILENO, line, (size_t)length);
  errno = saved;
}
