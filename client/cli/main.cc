// stowage: the command line.
#include <cstdio>
#include <exception>

#include "client/cli/app.h"

int main(int argc, char** argv) {
  try {
    return stowage::RunApp(argc, argv);
  } catch (const std::exception& error) {  // std::bad_alloc; this code does not throw
    std::fputs("stowage: ", stderr);
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
    return 1;
  }
}
