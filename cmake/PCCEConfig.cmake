# find_package(PCCE): calling context encoding for the targets of a project that clang compiles.
#
#   pcce_instrument(TARGET… [MODE link|lto|module] [VERIFY] [TARGETS NAME…] [OPTION [VALUE…]]…)
#
# instruments targets (executables and libraries of this project): the wrapper compiler becomes a launcher in front of
# clang, for compilation and for linking. In link mode, the default, objects have no code until their link encodes the
# program, so the targets that a static or object library is linked into must be instrumented as well. In lto mode
# (also without MODE if the target has -flto, TARGETS, HYBRID or TRACE), such a library is instrumented where it is linked
# into an instrumented executable or shared library. Each flag of the wrapper has a keyword: VERIFY is --pcce-verify,
# TARGETS NAME… is --pcce-targets=NAME,…, PROFILE_USE FILE is --pcce-profile-use=FILE, and so on
# (`pcce-clang --pcce-help` lists them). File names are relative to the source folder. KEEP 1 is --pcce-keep, and
# KEEP DIR is --pcce-keep=DIR, with an absolute path.
#
# Imported targets:
#   PCCE::runtime         the runtime's static library and pcce.h: for targets that call pcce_token() and are not instrumented
#   PCCE::runtime_shared  the same as a shared library, for shared libraries
#   PCCE::pcce            the command `pcce`, for custom commands (`pcce dict $<TARGET_FILE:app>`)
#
# PCCE_LLVM_VERSIONS are the versions of clang that PCCE is installed for, PCCE_LLVM_VERSION the last of them.
if(CMAKE_VERSION VERSION_LESS 3.21)
  set(PCCE_FOUND FALSE)
  set(PCCE_NOT_FOUND_MESSAGE "CMake is ${CMAKE_VERSION}, and PCCE needs 3.21 or later: earlier ones cannot put a launcher in front of the linker")
  return()
endif()

set(PCCE_LLVM_VERSION @LLVM@)
get_filename_component(_pcce_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_pcce_libraries lib/pcce)
set(_pcce_again "install PCCE again")
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_SYSTEM_PROCESSOR STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  set(_pcce_libraries lib/pcce/${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
  string(APPEND _pcce_again " with TARGET=${CMAKE_SYSTEM_PROCESSOR}-linux-gnu")
endif()
set(_pcce_runtime libpcce_rt.a libpcce_rt.so libpcce_verify.a libpcce_heap.a libpcce_libc.a libpcce_trace.a libpcce_trace.so
    pcce_trace_module.o pcce_thrown.o)
list(TRANSFORM _pcce_runtime PREPEND "${_pcce_libraries}/")
foreach(_pcce_file bin/pcce bin/pcce-clang bin/pcce-clang++ bin/pcce-ld lib/pcce/libpcce_pass.so ${_pcce_runtime}
    include/pcce.h share/pcce/keywords.cmake)
  if(NOT EXISTS "${_pcce_prefix}/${_pcce_file}")
    set(PCCE_FOUND FALSE)
    set(PCCE_NOT_FOUND_MESSAGE "${_pcce_prefix}/${_pcce_file} is missing; ${_pcce_again}")
    return()
  endif()
endforeach()
set(_PCCE_BIN "${_pcce_prefix}/bin")
# The file that the loader looks for.
file(REAL_PATH "${_pcce_prefix}/${_pcce_libraries}/libpcce_rt.so" _pcce_runtime)
file(GLOB PCCE_LLVM_VERSIONS RELATIVE "${_pcce_prefix}/lib/pcce" "${_pcce_prefix}/lib/pcce/llvm-*")
list(TRANSFORM PCCE_LLVM_VERSIONS REPLACE "^llvm-" "")
include("${_pcce_prefix}/share/pcce/keywords.cmake")

if(NOT TARGET PCCE::pcce)
  add_executable(PCCE::pcce IMPORTED)
  set_target_properties(PCCE::pcce PROPERTIES IMPORTED_LOCATION "${_pcce_prefix}/bin/pcce")
  add_library(PCCE::runtime STATIC IMPORTED)
  set_target_properties(PCCE::runtime PROPERTIES
    IMPORTED_LOCATION "${_pcce_prefix}/${_pcce_libraries}/libpcce_rt.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_pcce_prefix}/include"
    INTERFACE_LINK_LIBRARIES "${_pcce_prefix}/${_pcce_libraries}/libpcce_libc.a"
    # One runtime for the process: shared libraries find the executable's.
    INTERFACE_LINK_OPTIONS "-Wl,--build-id;-Wl,--export-dynamic-symbol=__pcce_*;-Wl,--export-dynamic-symbol=pcce_*")
  add_library(PCCE::runtime_shared SHARED IMPORTED)
  set_target_properties(PCCE::runtime_shared PROPERTIES
    IMPORTED_LOCATION "${_pcce_runtime}"
    INTERFACE_INCLUDE_DIRECTORIES "${_pcce_prefix}/include"
    INTERFACE_LINK_OPTIONS "-Wl,--build-id")
endif()
unset(_pcce_prefix)
unset(_pcce_libraries)
unset(_pcce_again)
unset(_pcce_runtime)
unset(_pcce_file)

# Stops with an error if there is no pass for the compiler of language `lang`, or if the compiler loads it already.
function(_pcce_check_compiler lang)
  string(REGEX MATCH "^[0-9]+" major "${CMAKE_${lang}_COMPILER_VERSION}")
  list(JOIN PCCE_LLVM_VERSIONS " or " versions)
  set(compiler "the ${lang} compiler is ${CMAKE_${lang}_COMPILER} (${CMAKE_${lang}_COMPILER_ID} ${CMAKE_${lang}_COMPILER_VERSION})")
  set(cure "configure again in an empty build folder with -DCMAKE_C_COMPILER=clang-${PCCE_LLVM_VERSION} -DCMAKE_CXX_COMPILER=clang++-${PCCE_LLVM_VERSION}")
  if(CMAKE_${lang}_COMPILER MATCHES "/pcce-clang(\\+\\+|xx)?$")
    message(FATAL_ERROR "pcce_instrument: ${compiler}, which instruments every target by itself; leave pcce_instrument out, or ${cure}")
  elseif(NOT CMAKE_${lang}_COMPILER_ID STREQUAL "Clang" OR NOT major IN_LIST PCCE_LLVM_VERSIONS)
    message(FATAL_ERROR "pcce_instrument: ${compiler}, and the pass is a plugin of clang ${versions}; ${cure}")
  endif()
endfunction()

function(pcce_instrument)
  cmake_parse_arguments(PARSE_ARGV 0 arg "${_PCCE_SWITCHES}" "MODE;${_PCCE_VALUES}" "${_PCCE_LISTS}")
  set(targets ${arg_UNPARSED_ARGUMENTS})
  if(NOT targets)
    message(FATAL_ERROR "pcce_instrument: no target is named: pcce_instrument(TARGET… [MODE link|lto|module] [VERIFY] [TARGETS NAME…] [OPTION [VALUE…]]…)")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "pcce_instrument: ${arg_KEYWORDS_MISSING_VALUES} has no value behind it")
  endif()
  set(flags "")
  if(DEFINED arg_MODE)
    if(NOT arg_MODE MATCHES "^(link|lto|module)$")
      message(FATAL_ERROR "pcce_instrument: MODE is `${arg_MODE}`, and there are `link`, `lto` and `module`")
    endif()
    list(APPEND flags "--pcce-mode=${arg_MODE}")
  endif()
  if(NOT CMAKE_GENERATOR MATCHES "Ninja|Makefiles")
    message(FATAL_ERROR "pcce_instrument: the generator is `${CMAKE_GENERATOR}`, which takes no launchers; use Ninja or Unix Makefiles")
  endif()
  foreach(keyword IN LISTS _PCCE_SWITCHES _PCCE_VALUES _PCCE_LISTS)
    string(TOLOWER "--pcce-${keyword}" flag)
    string(REPLACE "_" "-" flag "${flag}")
    if(keyword IN_LIST _PCCE_SWITCHES)
      if(arg_${keyword})
        list(APPEND flags "${flag}")
      endif()
      continue()
    endif()
    foreach(value IN LISTS arg_${keyword})
      set(at "")
      if(value MATCHES "^@(.*)$")
        set(at "@")
        set(value "${CMAKE_MATCH_1}")
      endif()
      if(at OR keyword IN_LIST _PCCE_FILES)
        get_filename_component(value "${value}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
      endif()
      list(APPEND flags "${flag}=${at}${value}")
    endforeach()
  endforeach()

  foreach(target IN LISTS targets)
    if(NOT TARGET ${target})
      message(FATAL_ERROR "pcce_instrument: there is no target `${target}` yet; call pcce_instrument behind its add_executable or add_library")
    endif()
    get_target_property(done ${target} PCCE_INSTRUMENTED)
    if(done)
      message(FATAL_ERROR "pcce_instrument: `${target}` is instrumented already")
    endif()
    set_target_properties(${target} PROPERTIES PCCE_INSTRUMENTED ON)
    foreach(lang C CXX)
      if(NOT CMAKE_${lang}_COMPILER_LOADED)
        continue()
      endif()
      _pcce_check_compiler(${lang})
      set(wrapper "${_PCCE_BIN}/pcce-clang")
      if(lang STREQUAL "CXX")
        string(APPEND wrapper "++")
      endif()
      # In front of other launchers (ccache), which then see the flags that the wrapper adds.
      foreach(tool COMPILER LINKER)
        string(REGEX MATCH "^[0-9]+" major "${CMAKE_${lang}_COMPILER_VERSION}")
        set(launcher "${wrapper}" ${flags} --pcce-llvm=${major} --pcce-launch)
        get_target_property(others ${target} ${lang}_${tool}_LAUNCHER)
        if(others)
          list(APPEND launcher ${others})
        endif()
        set_target_properties(${target} PROPERTIES ${lang}_${tool}_LAUNCHER "${launcher}")
      endforeach()
    endforeach()
    # Linked again when PCCE was installed again.
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${_PCCE_BIN}/../lib/pcce/libpcce_pass.so")
  endforeach()
endfunction()
