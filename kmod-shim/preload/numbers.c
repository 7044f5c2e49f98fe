// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "kmod-shim/preload/numbers.h"

size_t numbers_format(char* out, size_t room, const char* format, const uint32_t* numbers) {
  size_t length = 0;
  while (*format != '\0' && length + 1 < room) {
    if (format[0] != '%' || format[1] != 'u') {
      out[length++] = *format++;
      continue;
    }
    format += 2;
    uint32_t rest = *numbers++;
    char digits[10];
    size_t count = 0;
    do {
      digits[count++] = (char)('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
    while (count > 0 && length + 1 < room) out[length++] = digits[--count];
  }
  out[length] = '\0';
  return length;
}
