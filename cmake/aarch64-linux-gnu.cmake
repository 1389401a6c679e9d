# For `cmake --toolchain`: builds a project for AArch64 Linux on another machine, with the wrappers or, if it uses
# pcce_instrument, with the clang that -DCMAKE_C_COMPILER and -DCMAKE_CXX_COMPILER name.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_CXX_COMPILER_TARGET aarch64-linux-gnu)
get_filename_component(_pcce_bin "${CMAKE_CURRENT_LIST_DIR}/../../../bin" ABSOLUTE)
if(NOT CMAKE_C_COMPILER)
  set(CMAKE_C_COMPILER "${_pcce_bin}/pcce-clang")
endif()
if(NOT CMAKE_CXX_COMPILER)
  set(CMAKE_CXX_COMPILER "${_pcce_bin}/pcce-clang++")
endif()
unset(_pcce_bin)
# Tests of the project run in the emulator, where there is one.
find_program(PCCE_EMULATOR qemu-aarch64)
if(PCCE_EMULATOR AND NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL CMAKE_SYSTEM_PROCESSOR)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${PCCE_EMULATOR};-L;/usr/aarch64-linux-gnu")
endif()
