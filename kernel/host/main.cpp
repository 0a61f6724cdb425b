// The program `moiety`. Loads neither LibTorch nor a plugin: those live in moiety-worker's processes.
#include <cstdio>
#include <exception>

#include "kernel/host/command/command.h"

int main(int count, char** words) {
  try {
    return moiety::host::dispatch({words + 1, words + count});
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "moiety: unexpected: %s\n", problem.what());
    return 1;
  }
}
