# groff-learn.sh LINES TEXT: another workload than groff.sh: a document of paragraphs, lists and numbered lines, centred
# and without filling, with string comparisons and macros that call macros.
mkdir -p devx
cat > devx/DESC <<'END'
res 72000
hor 1
vert 1
unitwidth 1000
sizes 6000-72000 0
sizescale 1000
fonts 1 R
tcommand
END
{
    echo "name R"; echo "spacewidth 250"; echo "ligatures 0"; echo "charset"
    awk 'BEGIN { for (i = 33; i < 127; i++) printf "%c\t%d\t%d\t%d\n", i, 250 + i * 53 % 500, i % 2, i }' | grep -v '^[\\"]'
} > devx/R
{
    cat <<'END'
.pl 11i
.ll 6.5i
.nr item 0 1
.de par
.br
.ne 3v
.ti +2m
..
.de item
.par
.nr item +1
.ie '\\$1'begin' .nr item 1
.el .if \\n[item]>9 .nr item 1
\\n[item]) \\$2
..
.de both
.item \\$1 "\\$2"
.ce 2
\\$2
\\$3
.par
..
.de end
'bp
..
.wh -0.5i end
.nh
.ad l
END
    head -n "$1" "$2" | tr -d "'.\\\\" | awk 'NR % 9 == 1 { print ".both " (NR % 90 == 1 ? "begin" : "on") " " $1 " " $2 }
        NR % 31 == 5 { print ".nf" } NR % 31 == 9 { print ".fi" } NR % 13 == 4 { print ".nr x " NR; print ".if \\n[x]>" NR / 2 " .sp" }
        NR % 17 == 2 { print ".ds s " $1; print "\\*s \\s-2" $2 "\\s0" } { print }'
} > input
"$EXE" -R -F . -M . -T x input 2> /dev/null | cksum
