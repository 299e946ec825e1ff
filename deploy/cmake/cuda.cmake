# CUDA's runtime as one target, stowage_cudart, for the agent's CUDA device, and its headers alone
# as stowage_cuda_headers, for tests that link a double of the runtime. They come from a toolkit, or
# else from the PyPI packages that deploy/setup.sh unpacks into .cache/cuda: headers and a static
# library, without a compiler. A program that links it starts on machines without a driver.
if(NOT STOWAGE_CUDA)
  return()
endif()

find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND)
  add_library(stowage_cuda_headers INTERFACE)
  target_include_directories(stowage_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  add_library(stowage_cudart INTERFACE)
  target_link_libraries(stowage_cudart INTERFACE $<BUILD_INTERFACE:stowage_cuda_headers>
    CUDA::cudart_static)
  message(STATUS "CUDA: toolkit ${CUDAToolkit_VERSION} in ${CUDAToolkit_INCLUDE_DIRS}")
  return()
endif()

set(packages ${PROJECT_SOURCE_DIR}/.cache/cuda/nvidia/cu13)
if(EXISTS ${packages}/include/cuda_runtime_api.h AND EXISTS ${packages}/lib/libcudart_static.a)
  add_library(stowage_cuda_headers INTERFACE)
  target_include_directories(stowage_cuda_headers SYSTEM INTERFACE ${packages}/include)
  add_library(stowage_cudart INTERFACE)
  target_link_libraries(stowage_cudart INTERFACE $<BUILD_INTERFACE:stowage_cuda_headers>
    $<BUILD_INTERFACE:${packages}/lib/libcudart_static.a>
    $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/lib/stowage/libcudart_static.a>
    Threads::Threads ${CMAKE_DL_LIBS} rt)
  if(STOWAGE_INSTALL)
    install(FILES ${packages}/lib/libcudart_static.a DESTINATION lib/stowage)
  endif()
  message(STATUS "CUDA: no toolkit; runtime of ${packages}")
elseif(STOWAGE_CUDA STREQUAL "AUTO")
  message(STATUS "CUDA: not found; building without it")
else()
  message(FATAL_ERROR
    "STOWAGE_CUDA=${STOWAGE_CUDA}, but there is no CUDA toolkit and no runtime in ${packages}: "
    "install a toolkit, run deploy/setup.sh test, or set STOWAGE_CUDA=OFF")
endif()
