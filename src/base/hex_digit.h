// Digits of hexadecimal numbers, of either case.
#pragma once

namespace causeway {

// 0 to 15; -1: it is none.
constexpr int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace causeway
