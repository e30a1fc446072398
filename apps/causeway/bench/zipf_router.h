// Random weights whose routers choose some experts often and most seldom, for measuring what a
// cache of experts does for a model that has favourites.
#pragma once

#include <cstddef>
#include <span>

#include "model/model_card.h"

namespace causeway::bench {

// Changes random bf16 weights of one scale, at home as the card's layout says, so that a layer's
// choices are near to k draws without replacement of which the i-th expert, in an order of the
// layer's own, gets a part of (i + 1)^-exponent:
//
// The first element of the residual stream is the same for all tokens (of the embedding, and no
// product adds to it), and the first column of each router says how popular the expert is. The
// other columns, random, are what differs between tokens.
void skew_routers(std::span<std::byte> weights, const model::ModelCard& card, double exponent);

}  // namespace causeway::bench
