# groff.sh LINES TEXT: formats the first lines of a text, with macros, strings, loops, traps and diversions, for a device
# whose one font has letters of different widths.
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
    echo "name R"; echo "spacewidth 333"; echo "ligatures 0"; echo "charset"
    awk 'BEGIN { for (i = 33; i < 127; i++) printf "%c\t%d\t%d\t%d\n", i, 300 + i * 37 % 400, i % 3, i }' | grep -v '^[\\"]'
} > devx/R
{
    cat <<'END'
.pl 20i
.ll 5i
.ps 10
.vs 12p
.nr chapter 0 1
.de chapter
.br
.sp 1
.nr i 0 1
.while \\n+i<5 .ds part\\ni \\$1.\\ni
\\*[part1] \\*[part2] \\n+[chapter] \\w'\\$1'u
.br
..
.de note
.di aside
.in 1i
\\$1 \\$2 \\$3
.br
.di
.in 0
.aside
..
.de top
'sp 1i
'tl '\\n%'text'\\n[chapter]'
'sp 2v
..
.wh 0 top
.de foot
'bp
..
.wh -1i foot
.hy 4
.ad b
END
    head -n "$1" "$2" | tr -d "'.\\\\" | awk 'NR % 40 == 1 { print ".chapter " $1 } NR % 15 == 3 { print ".note " $1 " " $2 " " $3 }
        NR % 7 == 2 { print "\\h'"'"'1p'"'"'" $1 "\\s+2" $2 "\\s0\\v'"'"'-2p'"'"'" $3 "\\v'"'"'2p'"'"'" } { print }'
} > input
"$EXE" -R -F . -M . -T x input 2> /dev/null | cksum
