# Compiler flags of everything that is built here, whatever the instruction set.
# SPDX-License-Identifier: MIT

# Contracting a * b + c into one rounding would make results depend on the instruction set.
# Nobody reads errno or the exception flags after arithmetic: saying so changes no value and lets gcc vectorize selections.
add_compile_options(-ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Wpedantic)
add_compile_options($<$<CONFIG:Debug>:-DOCTET_DEBUG>)
if(OCTET_WERROR)
  add_compile_options(-Werror)
endif()

if(OCTET_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "OCTET_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
  set(OCTET_SANITIZE ON)
endif()
if(OCTET_SANITIZE)
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_compile_options(-O1 ${sanitizers})
  add_link_options(${sanitizers})
endif()

# For what may see the internal headers: the library's own objects, tests, fuzzers.
function(octet_internal_target target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_include_directories(${target} SYSTEM PRIVATE ${OCTET_INCLUDE_DIRS})
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE= OCTET_VERSION="${PROJECT_VERSION}")
endfunction()
