# Precompiled headers of the libraries that are expensive to parse. A group is one precompiled header
# that all targets with the same compile options share: parsing LibTorch takes 15 s a file, gRPC, CLI11
# and GoogleTest two to four. GCC instantiates what a header's inline functions use in every file, so a
# group has the headers that most of its files include, and no more.
option(STOWAGE_PRECOMPILE "Precompile headers of libraries" ON)

# Clang refuses a precompiled header from the compiler cache whose sources have another time of change.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()

set(stowage_standard_headers
  <algorithm> <chrono> <cmath> <cstdint> <functional> <map> <memory> <optional> <string> <utility>
  <vector> <absl/container/flat_hash_map.h> <absl/status/status.h> <absl/status/statusor.h>
  <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>)

# stowage_precompiled(GROUP HEADERS… DEPENDS…): a group for stowage_library(… PRECOMPILED GROUP). The
# headers come after the standard ones; DEPENDS are what the headers need.
function(stowage_precompiled group)
  cmake_parse_arguments(arg "" "" "HEADERS;DEPENDS" ${ARGN})
  if(NOT STOWAGE_PRECOMPILE)
    return()
  endif()
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${group}.cc.new "// Holds the precompiled header of ${group}.\n")
  file(COPY_FILE ${CMAKE_CURRENT_BINARY_DIR}/${group}.cc.new ${CMAKE_CURRENT_BINARY_DIR}/${group}.cc
       ONLY_IF_DIFFERENT)
  add_library(${group} STATIC ${CMAKE_CURRENT_BINARY_DIR}/${group}.cc)
  target_link_libraries(${group} PUBLIC absl::flat_hash_map absl::status absl::statusor
    absl::strings absl::str_format Threads::Threads ${arg_DEPENDS} PRIVATE stowage_flags)
  target_precompile_headers(${group} PRIVATE ${stowage_standard_headers} ${arg_HEADERS})
endfunction()

# Leaves out the optimization that the folder's targets have.
function(stowage_unoptimized target)
  if(NOT TARGET ${target})
    return()
  endif()
  get_target_property(options ${target} COMPILE_OPTIONS)
  if(options)
    list(REMOVE_ITEM options -O1)
    set_target_properties(${target} PROPERTIES COMPILE_OPTIONS "${options}")
  endif()
endfunction()

# Lets a target use the group's precompiled header, which takes the group's optimization.
function(stowage_use_precompiled target group)
  if(NOT TARGET ${group})
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${group})
  # Programs are compiled with -fPIE, libraries with -fPIC, and GCC takes headers of the same only.
  get_target_property(type ${target} TYPE)
  if(CMAKE_POSITION_INDEPENDENT_CODE AND type STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  get_target_property(options ${group} COMPILE_OPTIONS)
  if(NOT "-O1" IN_LIST options)
    stowage_unoptimized(${target})
  endif()
endfunction()

# The standard headers alone. What STOWAGE_SOLVER_OPTIMIZED concerns has a group of its own.
stowage_precompiled(stowage_precompiled_standard)
