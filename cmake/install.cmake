# What `cmake --install` writes: header, libraries, program, octet.pc and the CMake package (octet::octet, octet::static).
# SPDX-License-Identifier: MIT
include(CMakePackageConfigHelpers)

set_target_properties(octet_shared PROPERTIES EXPORT_NAME octet)
set_target_properties(octet_static PROPERTIES EXPORT_NAME static)
install(DIRECTORY include/octet TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(TARGETS octet_shared octet_static EXPORT octet-targets LIBRARY ARCHIVE)
install(EXPORT octet-targets NAMESPACE octet:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/octet)

configure_package_config_file(cmake/octet-config.cmake.in ${PROJECT_BINARY_DIR}/octet-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/octet)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/octet-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/octet-config.cmake ${PROJECT_BINARY_DIR}/octet-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/octet)

# octet.pc finds its prefix from its own place, so that an installed tree can be moved.
# Libs.private, not Requires.private: liboctet.a is linked with the shared forms of what it needs, whose own needs
# (their own compression codecs, say) are no business of its users.
list(TRANSFORM OCTET_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE pc_libraries)
string(REPLACE ";" " " pc_libraries "${pc_libraries}")
file(RELATIVE_PATH pc_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(cmake/octet.pc.in ${PROJECT_BINARY_DIR}/octet.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/octet.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
