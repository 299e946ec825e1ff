# LibTorch as one target, stowage_libtorch. Its headers are SYSTEM: their warnings are not ours.
if(STOWAGE_TORCH STREQUAL "AUTO")
  find_package(Torch CONFIG QUIET)
elseif(STOWAGE_TORCH)
  find_package(Torch CONFIG REQUIRED)
endif()
if(NOT Torch_FOUND)
  return()
endif()

add_library(stowage_libtorch INTERFACE)
# The package's targets have them, too, wherever it lies.
target_include_directories(stowage_libtorch SYSTEM INTERFACE
  "$<BUILD_INTERFACE:${TORCH_INCLUDE_DIRS}>")
target_link_libraries(stowage_libtorch INTERFACE ${TORCH_LIBRARIES})
separate_arguments(flags UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(stowage_libtorch INTERFACE ${flags})
if(TARGET stowage_cudart AND TARGET torch_cuda)
  target_compile_definitions(stowage_libtorch INTERFACE STOWAGE_TORCH_CUDA)
endif()
