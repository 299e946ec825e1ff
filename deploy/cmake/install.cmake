# What `cmake --install` writes: programs into bin, libraries into lib/stowage, headers with the paths
# that they have in the tree into include/stowage, and the CMake package Stowage. Its targets have the
# same names for a project that adds this folder.
add_library(Stowage::solver ALIAS stowage_solve)
set_target_properties(stowage_solve PROPERTIES EXPORT_NAME solver)
set(components solver)
if(STOWAGE_GRPC)
  add_library(Stowage::client ALIAS stowage_planner)
  set_target_properties(stowage_planner PROPERTIES EXPORT_NAME client)
  list(APPEND components client)
endif()
if(TARGET stowage_fit)
  add_library(Stowage::torch ALIAS stowage_fit)
  set_target_properties(stowage_fit PROPERTIES EXPORT_NAME torch)
  list(APPEND components torch)
endif()
if(NOT STOWAGE_INSTALL)
  return()
endif()

# Appends a library of ours and those that it links to a list.
function(stowage_add_with_dependencies target list)
  if(target IN_LIST ${list})
    return()
  endif()
  list(APPEND ${list} ${target})
  get_target_property(dependencies ${target} INTERFACE_LINK_LIBRARIES)
  foreach(dependency ${dependencies})
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" dependency "${dependency}")
    if(dependency MATCHES "^stowage_")
      stowage_add_with_dependencies(${dependency} ${list})
    endif()
  endforeach()
  set(${list} "${${list}}" PARENT_SCOPE)
endfunction()

set(libraries "")
foreach(component ${components})
  get_target_property(target Stowage::${component} ALIASED_TARGET)
  stowage_add_with_dependencies(${target} libraries)
endforeach()
install(TARGETS ${libraries} EXPORT Stowage ARCHIVE DESTINATION lib/stowage)

install(DIRECTORY solver DESTINATION include/stowage FILES_MATCHING PATTERN "*.h")
if(TARGET stowage_planner)
  install(DIRECTORY proto/service DESTINATION include/stowage/proto FILES_MATCHING PATTERN "*.h")
  install(DIRECTORY client/lib DESTINATION include/stowage/client FILES_MATCHING PATTERN "*.h")
endif()
if(STOWAGE_GRPC)
  install(DIRECTORY proto/convert DESTINATION include/stowage/proto FILES_MATCHING PATTERN "*.h")
  install(DIRECTORY ${PROJECT_BINARY_DIR}/proto/stowage DESTINATION include/stowage
          FILES_MATCHING PATTERN "*.pb.h")
  install(TARGETS stowage stowage-server RUNTIME DESTINATION bin)
endif()
if(TARGET stowage_fit)
  install(DIRECTORY client/agent client/torch DESTINATION include/stowage/client
          FILES_MATCHING PATTERN "*.h" PATTERN cuda EXCLUDE)
  set_target_properties(stowage-train PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS stowage-train RUNTIME DESTINATION bin)
endif()

include(CMakePackageConfigHelpers)
set(package ${PROJECT_BINARY_DIR}/package)
configure_package_config_file(deploy/cmake/StowageConfig.cmake.in ${package}/StowageConfig.cmake
  INSTALL_DESTINATION lib/cmake/Stowage NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${package}/StowageConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${package}/StowageConfig.cmake ${package}/StowageConfigVersion.cmake
        DESTINATION lib/cmake/Stowage)
install(EXPORT Stowage NAMESPACE Stowage:: FILE StowageTargets.cmake
        DESTINATION lib/cmake/Stowage)
