// Writes the small files of a model's snapshot, for tests: everything but weights.
#pragma once

#include <filesystem>
#include <string>

namespace causeway::fleet::testing {

// A byte-level tokenizer of 258 tokens: ids 0 to 255 in the order of GPT-2's byte alphabet, then
// "<s>" (256) and "</s>" (257).
std::string byte_tokenizer_json();

void write_file(const std::filesystem::path& file, const std::string& content);

// config.json of a tiny Llama with a context of 128 tokens, and the tokenizer.
void write_snapshot(const std::filesystem::path& directory);

}  // namespace causeway::fleet::testing
