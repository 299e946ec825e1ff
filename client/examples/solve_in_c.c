/* Asks for a schedule in C, through the C interface: prints the progress of the solve and the
 * answer, as JSON. Exits with 1 where there is none.
 *   stowage-example-c "40%"
 */
#include <stdio.h>
#include <string.h>

#include "client/c/stowage.h"

/* Eight equal layers: times in seconds, sizes in bytes. */
#define LAYER                                            \
  "{\"forward_seconds\":0.01,\"backward_seconds\":0.02," \
  "\"output_bytes\":1048576,\"saved_bytes\":4194304}"
static const char kChain[] =
    "{\"name\":\"example\",\"input_bytes\":1048576,\"stages\":[" LAYER "," LAYER "," LAYER "," LAYER
    "," LAYER "," LAYER "," LAYER "," LAYER "]}";

/* Prints the events of a call and frees it. Copies its result into `result`. Returns whether there
 * is one. */
static int finish(stowage_call* call, char* result, size_t size) {
  static const char kResult[] = "{\"result\":";
  int has_result = 0;
  while (!stowage_has_ended(call)) {
    const char* event = stowage_next(call, 1000);
    if (event == NULL) continue;
    puts(event);
    if (strncmp(event, kResult, strlen(kResult)) == 0) {
      has_result = 1;
      snprintf(result, size, "%s", event + strlen(kResult));
    }
  }
  stowage_free(call);
  return has_result;
}

int main(int argc, char** argv) {
  char request[4096];
  char result[4096];
  const char* bytes;
  long long budget = 0;

  snprintf(request, sizeof(request), "{\"chain\":%s,\"budget\":\"%s\"}", kChain,
           argc > 1 ? argv[1] : "40%");
  if (!finish(stowage_memory(request, strlen(request)), result, sizeof(result))) return 1;
  bytes = strstr(result, "\"budget_bytes\":\"");
  if (bytes == NULL || sscanf(bytes, "\"budget_bytes\":\"%lld\"", &budget) != 1) return 1;

  snprintf(request, sizeof(request), "{\"chain\":%s,\"platform\":{\"memory_bytes\":%lld}}", kChain,
           budget);
  return finish(stowage_solve(request, strlen(request)), result, sizeof(result)) ? 0 : 1;
}
