# Substitutions with groups, back references and loops, the hold space, a transliteration, branches.
s/\([a-z]*\)ka \([a-z]*\)/\2 \1KA/g
s/\([aeiou]\)[^aeiou ]*\1/<&>/2
/^[b-m].*na /{
h
s/ /_/g
G
s/\n/ | /
}
y/bdg/BDG/
:again
s/\(^\|[^0-9]\)\([aeiou]\)\([aeiou]\)/\1\2-\3/
t again
$!{
/ma$/{
N
s/\n\(.*\)/ [\1]/
P
D
}
}
