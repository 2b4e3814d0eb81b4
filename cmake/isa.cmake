# Instruction sets: the one place with -m flags. A source's suffix (conv_i8_direct_6x64__avx512vnni.c) chooses its row;
# `__scalar` and no suffix mean no flags. Files of another architecture are left out of the build.
#
# One source may be built for two rows: a `__avxvnni` file is also built as `avx512vl` (256-bit VNNI of AVX-512), with
# OCT_AVXVNNI_AS_AVX512VL defined, so that it is tested on machines without AVX-VNNI. The source names its row
# oct_...__avx512vl under that definition and oct_...__avxvnni otherwise; the registry takes both.
# SPDX-License-Identifier: MIT

# Hook for flags that all kernel sources get, should a measurement ask for them.
set(OCTET_KERNEL_OPTIONS "")

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(avx2_flags -mavx2 -mfma -mf16c)
  set(avx512_flags ${avx2_flags} -mavx512f -mavx512bw -mavx512vl -mavx512dq)
  set(OCTET_ISAS avx2 avxvnni avx512vl avx512 avx512vbmi avx512vnni amxint8)
  set(OCTET_ISA_FLAGS_avx2 ${avx2_flags})
  set(OCTET_ISA_FLAGS_avxvnni ${avx2_flags} -mavxvnni)
  set(OCTET_ISA_FLAGS_avx512 ${avx512_flags})
  set(OCTET_ISA_FLAGS_avx512vbmi ${avx512_flags} -mavx512vbmi)
  set(OCTET_ISA_FLAGS_avx512vnni ${avx512_flags} -mavx512vnni)
  set(OCTET_ISA_FLAGS_amxint8 ${avx512_flags} -mavx512vnni -mamx-tile -mamx-int8)
  set(OCTET_ISA_FLAGS_avx512vl ${avx512_flags} -mavx512vnni -DOCT_AVXVNNI_AS_AVX512VL)
  set(OCTET_ISA_SUFFIX_avx512vl avxvnni)
else()
  set(OCTET_ISAS "")
endif()

# The instruction-set suffix of a file name, or "scalar".
function(octet_isa_of source result)
  set(${result} scalar PARENT_SCOPE)
  if(source MATCHES "__([a-z0-9]+)\\.c$")
    set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
  endif()
endfunction()

# Makes an object library octet_isa_<name> per instruction set that has sources; the rest goes to `plain_result`.
function(octet_split_by_isa sources plain_result names_result)
  set(plain "")
  foreach(source IN LISTS sources)
    octet_isa_of(${source} isa)
    if(isa STREQUAL "scalar")
      list(APPEND plain ${source})
    else()
      list(APPEND sources_${isa} ${source})
    endif()
  endforeach()
  set(names "")
  foreach(isa IN LISTS OCTET_ISAS)
    set(suffix ${isa})
    if(DEFINED OCTET_ISA_SUFFIX_${isa})
      set(suffix ${OCTET_ISA_SUFFIX_${isa}})
    endif()
    if(sources_${suffix})
      add_library(octet_isa_${isa} OBJECT ${sources_${suffix}})
      octet_internal_target(octet_isa_${isa})
      target_compile_options(octet_isa_${isa} PRIVATE ${OCTET_ISA_FLAGS_${isa}} ${OCTET_KERNEL_OPTIONS})
      list(APPEND names ${isa})
    endif()
  endforeach()
  set(${plain_result} "${plain}" PARENT_SCOPE)
  set(${names_result} "${names}" PARENT_SCOPE)
endfunction()
