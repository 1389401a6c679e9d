# usage: ninja.sh N
# A build of N files in groups, with a header for each of them, archives, and programs that need many archives.
awk -v n="$1" 'BEGIN {
    print "root = .\nflags = -O2 -I$root/include"
    print "rule compile\n  command = cc $flags -MD -MF $out.d -c $in -o $out\n  description = CC $out"
    print "rule archive\n  command = rm -f $out && ar crs $out $in\n  description = AR $out"
    print "rule link\n  command = cc $flags -o $out $in -lm\n  description = LINK $out"
    print "rule make\n  command = touch $out"
    groups = 40
    for (i = 0; i < n; i++) {
        g = i % groups
        printf "build $root/gen/h%d.h: make\n", i
        printf "build $root/gen/s%d.c: make | $root/gen/h%d.h\n", i, i
        printf "build $root/obj/o%d.o: compile $root/gen/s%d.c", i, i
        printf " | $root/gen/h%d.h || $root/gen/h%d.h\n", i, (i * 7) % n
        if (i % 5 == 0) print "  flags = $flags -DNUMBER=" i " -g"
        list[g] = list[g] " $root/obj/o" i ".o"
    }
    for (g = 0; g < groups; g++) printf "build $root/lib/g%d.a: archive%s\n", g, list[g]
    for (g = 0; g < groups; g++) {
        printf "build group%d: link", g
        for (k = 0; k <= g; k++) printf " $root/lib/g%d.a", k
        print ""
        all = all " group" g
    }
    print "build all: phony" all "\ndefault all"
}'
