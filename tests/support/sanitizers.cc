// Linked into tests that ask for more memory than there is: it is to be refused, as without a
// sanitizer, and not to end the program.
extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): names of the runtimes.
const char* __asan_default_options() { return "allocator_may_return_null=1"; }
const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

}  // extern "C"
