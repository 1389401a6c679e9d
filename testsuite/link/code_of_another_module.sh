#!/bin/sh
case "$*" in
*-\#\#\#*) CLANG "$@" 2>&1 | sed "s|^ \"[^\"]*\" \"-cc1\"| \"$0\" \"-cc1\"|" >&2 ;;
-cc1\ *)
    CLANG "$@" || exit
    for file; do
        case $file in
        *.bc) if [ -e "$0.kept" ]; then cp "$0.kept" "${file%.bc}.o"; else cp "${file%.bc}.o" "$0.kept"; fi ;;
        esac
    done ;;
*) exec CLANG "$@" ;;
esac
