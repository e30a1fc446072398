// Numbers of JSON files as Python reads them. Its json module takes integers of any length, makes
// 1e999 an infinity, and takes the words NaN, Infinity and -Infinity; the parsers that we build on
// refuse the whole file for each of these, wherever it stands. Tokenizers of transformers, for one,
// are published with "model_max_length": 1000000000000000019884624838656.
//
//   text --plain_json_numbers--> text that every parser takes --> tree --python_number--> doubles
#pragma once

#include <string>
#include <string_view>

namespace causeway {

// `json` with each number that parsers refuse replaced by one that they take: an integer of more
// than 64 bits becomes the float of the same digits; what is no finite double becomes a stand-in
// that python_number() knows. Everything else stays, whether it is JSON or not; strings do too.
// The result is a view of `json` when nothing was replaced, else of `buffer`.
std::string_view plain_json_numbers(std::string_view json, std::string& buffer);

// The number that a float of such a text stands for: an infinity or NaN for a stand-in. The
// stand-ins are the largest doubles that there are, which no real file uses as numbers.
double python_number(double number);

// The number as Python's json writes it where nlohmann's would write null.
std::string_view unusual_number_text(double number);

}  // namespace causeway
