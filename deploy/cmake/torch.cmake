# LibTorch as one target, stowage_libtorch. Its headers are SYSTEM: their warnings are not ours.

# Of PyPI's wheel, whose own CMake package wants a CUDA compiler, which nothing here needs.
if(STOWAGE_TORCH AND STOWAGE_TORCH_WHEEL)
  set(wheel ${STOWAGE_TORCH_WHEEL}/torch)
  if(NOT EXISTS ${wheel}/lib/libtorch_cpu.so)
    message(FATAL_ERROR "STOWAGE_TORCH_WHEEL=${STOWAGE_TORCH_WHEEL} has no torch/lib/libtorch_cpu.so: "
      "name the site-packages folder into which pip has installed torch")
  endif()
  set(libraries ${wheel}/lib/libtorch.so ${wheel}/lib/libtorch_cpu.so ${wheel}/lib/libc10.so)
  add_library(stowage_libtorch INTERFACE)
  target_include_directories(stowage_libtorch SYSTEM INTERFACE
    ${wheel}/include ${wheel}/include/torch/csrc/api/include)
  if(TARGET stowage_cudart AND EXISTS ${wheel}/lib/libtorch_cuda.so)
    target_compile_definitions(stowage_libtorch INTERFACE STOWAGE_TORCH_CUDA)
    target_link_libraries(stowage_libtorch INTERFACE stowage_cudart)
    list(APPEND libraries ${wheel}/lib/libtorch_cuda.so ${wheel}/lib/libc10_cuda.so)
  endif()
  # Nobody calls into libtorch_cuda.so by name, which registers its kernels when it is loaded.
  target_link_libraries(stowage_libtorch INTERFACE
    -Wl,--no-as-needed ${libraries} -Wl,--as-needed)
  file(READ ${wheel}/version.py version)
  string(REGEX MATCH "__version__ = '([^']+)'" version "${version}")
  message(STATUS "LibTorch: ${CMAKE_MATCH_1} of ${wheel}")
  set(Torch_FOUND TRUE)
  return()
endif()

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
