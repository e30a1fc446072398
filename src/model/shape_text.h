// A model's shape in words: what decides how long its steps take. Models of one shape have one
// text, whatever their weights, families and names. Pure.
#pragma once

#include <string>

#include "model/config.h"

namespace causeway::model {

// "16 layers of 2048, heads 32/8 of 64, MLP 8192, vocabulary 128256, BF16"; behind it what not all
// models have: ", 128 experts of 768 in 48 layers, 8 a token", ", window 4096 in 21 layers".
// `storage`: the type that weights and KV are kept in. Not longer than 200 bytes.
std::string shape_text(const ModelConfig& config, DType storage);

}  // namespace causeway::model
