# Flags of our own code, on one interface target that every target of ours links PRIVATE.
add_library(stowage_flags INTERFACE)
target_compile_options(stowage_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
if(STOWAGE_WERROR)
  target_compile_options(stowage_flags INTERFACE -Werror)
endif()
# GCC 12 sees overflows in std::string's own code (its bugs 105329 and 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(stowage_flags INTERFACE -Wno-array-bounds -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(stowage_flags INTERFACE -Wthread-safety)
endif()

# Everywhere, so that precompiled headers suit all targets: it defines a macro.
add_compile_options(-pthread)

if(STOWAGE_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(stowage_flags INTERFACE -Wno-stringop-overflow)  # likewise
endif()

# With sanitizers GCC takes sound code for code that reads what was never written.
if(STOWAGE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(stowage_flags INTERFACE -Wno-maybe-uninitialized)
endif()

# Sanitizers and the linker concern every object and every link, generated code included.
if(STOWAGE_SANITIZE)
  add_compile_options(-fsanitize=${STOWAGE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${STOWAGE_SANITIZE})
endif()
if(STOWAGE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(STOWAGE_LINKER)
  add_link_options(-fuse-ld=${STOWAGE_LINKER})
endif()

# stowage_library(NAME SOURCES… DEPENDS… PRIVATE… PRECOMPILED GROUP): one folder's library. Includes are
# rooted at the repository, whichever project includes this file; dependencies are public unless they
# are named as PRIVATE, flags are not. GROUP: see precompile.cmake.
get_filename_component(stowage_root ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
function(stowage_library name)
  cmake_parse_arguments(arg "" "PRECOMPILED" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${stowage_root}> $<INSTALL_INTERFACE:include/stowage>)
  target_link_libraries(${name} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_PRIVATE}
                        $<BUILD_INTERFACE:stowage_flags>)
  if(arg_PRECOMPILED)
    stowage_use_precompiled(${name} ${arg_PRECOMPILED})
  endif()
endfunction()

# For code that parses a command line once. CLI11's headers emit 120 KB of code in every file that
# includes them; -O2 takes seconds a file longer for it than -O1. Targets that do not exist are
# skipped.
function(stowage_optimize_less)
  foreach(target ${ARGN})
    if(TARGET ${target})
      target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
  endforeach()
endfunction()

# The solvers' inner loops are too slow to test unoptimized; asserts stay on. At -O2, as in a release
# build, GCC does not vectorize loops whose rows might overlap.
function(stowage_optimize)
  if(STOWAGE_SOLVER_OPTIMIZED)
    foreach(target ${ARGN})
      if(TARGET ${target})
        target_compile_options(${target} PRIVATE -O3)
      endif()
    endforeach()
  endif()
endfunction()
