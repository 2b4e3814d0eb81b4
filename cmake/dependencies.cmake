# The libraries Octet stands on. Sets OCTET_LIBRARIES (link names, so that an installed package stays relocatable),
# OCTET_LIBRARY_DIRS, OCTET_INCLUDE_DIRS and CMOCKA_*.
# SPDX-License-Identifier: MIT
find_package(PkgConfig REQUIRED)

set(OCTET_LIBRARIES "")
set(OCTET_LIBRARY_DIRS "")
set(OCTET_INCLUDE_DIRS "")

foreach(package zlib libcpuinfo libpng libjpeg jansson)
  string(TOUPPER ${package} prefix)
  pkg_check_modules(${prefix} REQUIRED ${package})
  list(APPEND OCTET_LIBRARIES ${${prefix}_LIBRARIES})
  list(APPEND OCTET_LIBRARY_DIRS ${${prefix}_LIBRARY_DIRS})
  list(APPEND OCTET_INCLUDE_DIRS ${${prefix}_INCLUDE_DIRS})
endforeach()

find_path(FP16_INCLUDE_DIR fp16.h REQUIRED) # comes without a pkg-config file
find_package(Threads REQUIRED)
list(APPEND OCTET_LIBRARIES ${CMAKE_THREAD_LIBS_INIT} m)
list(APPEND OCTET_INCLUDE_DIRS ${FP16_INCLUDE_DIR})

foreach(list_name OCTET_LIBRARIES OCTET_LIBRARY_DIRS OCTET_INCLUDE_DIRS)
  list(REMOVE_DUPLICATES ${list_name})
endforeach()
# A system folder given with -L or -isystem changes the search order of headers and libraries that follow it.
list(REMOVE_ITEM OCTET_INCLUDE_DIRS ${CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES})
list(REMOVE_ITEM OCTET_LIBRARY_DIRS ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})

pkg_check_modules(CMOCKA QUIET cmocka)
