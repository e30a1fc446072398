// The cases of the programs that use the CUDA runtime, by file.
#pragma once

#include "program.h"

namespace program {

Cases copy_cases();      // bytes, sizes, offsets, kinds of call and of memory
Cases order_cases();     // what comes before and after a copy: kernels, events, streams, callbacks
Cases default_cases();   // the default streams
Cases memory_cases();    // memory of other kinds
Cases graph_cases();     // batches, capture, graphs
Cases thread_cases();    // host threads, several GPUs
Cases lifetime_cases();  // what ends or goes away while copies are under way
Cases process_cases();   // exit, fork, reset, the processor's time
Cases stress_cases();    // all at random

}  // namespace program
