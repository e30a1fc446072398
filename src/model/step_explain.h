// A step's program as a table for people: what runs in which order, which way, how much of the
// weights it reads, what is waited for and dropped. Pure.
#pragma once

#include <string>

#include "model/config.h"
#include "model/step_program.h"

namespace causeway::model {

// One instruction, without its layer: "down           split, halves   128 × 4096 × 14336  …".
std::string explain(const StepInstruction& instruction, const ModelConfig& config,
                    const StepShape& shape);

// All instructions, numbered; equal layers in a row are printed once.
std::string explain(const StepProgram& program, const ModelConfig& config);

// The most bytes of weights that an instruction reads.
Bytes weight_bytes(const StepInstruction& instruction, const ModelConfig& config,
                   const StepShape& shape);

}  // namespace causeway::model
