// How long a kernel's threads spin where they wait for each other.
//
// GNU's OpenMP, which oneDNN uses too, spins for 300,000 pauses at every barrier: 16 ms on CPUs
// whose pause takes 140 cycles. Where anything else wants a processor, the thread waited for is not
// running, and a step of 1 ms takes 100 and more. 10,000 pauses (some 0.5 ms) are longer than what
// lies between two products of a step; after them a thread sleeps.
#pragma once

namespace causeway::app {

constexpr const char* kSpinPauses = "10000";

// Unless the environment says how to wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT), begins this program
// anew with kSpinPauses in it, since OpenMP reads that before main(). Returns where there is
// nothing to do or that fails: the program then waits as OpenMP does. Before any thread starts.
void wait_briefly(char** argv, char* (*get_environment)(const char*));

}  // namespace causeway::app
