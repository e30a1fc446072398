// How long encoding a file takes, once for each line of standard input: for encode_speed.py, which
// takes turns with other libraries.
//
//   encode_time TOKENIZER_DIRECTORY FILE
//
//   stdout  one line each: nanoseconds and the number of tokens
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "base/clock.h"
#include "text/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: encode_time TOKENIZER_DIRECTORY FILE\n";
    return 2;
  }
  const auto tokenizer = causeway::text::load_tokenizer(argv[1]);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.error().message << "\n";
    return 1;
  }
  std::ostringstream text;
  text << std::ifstream(argv[2], std::ios::binary).rdbuf();
  const causeway::RealClock clock;
  for (std::string line; std::getline(std::cin, line);) {
    const causeway::Nanos start = clock.now();
    const auto ids = (*tokenizer)->encode(text.view(), {});
    const causeway::Nanos taken = clock.now() - start;
    if (!ids.ok()) {
      std::cerr << ids.error().message << "\n";
      return 1;
    }
    std::cout << taken.count << " " << ids->size() << std::endl;
  }
  return 0;
}
