# Recursive functions, associative arrays, regular expressions, string functions, sorting with a function.
function hanoi(n, from, to, over) { return n ? hanoi(n - 1, from, over, to) + 1 + hanoi(n - 1, over, to, from) : 0 }
function mirror(s) { return length(s) < 2 ? s : mirror(substr(s, 2)) substr(s, 1, 1) }
function by_count(i1, v1, i2, v2) { return v2 - v1 ? v2 - v1 : (i1 < i2 ? -1 : i1 > i2) }
{
    for (i = 1; i <= NF; i++) {
        count[$i]++
        if ($i ~ /^[b-m]a.*(ta|na)$/) matched++
        following[$(i - 1) == "" ? "-" : substr($(i - 1), 1, 2), substr($i, 1, 2)]++
    }
    line = $0
    changed += gsub(/[aeiou][^aeiou ]/, "<&>", line)
    sum += length(line) + index(line, "ka>") + match(line, /([a-z])<o/)
    if (NR % 7 == 0) text = text substr(mirror($2), 1, 1)
    if (NR % 500 == 0) moves += hanoi(9, "a", "b", "c")
}
END {
    n = asorti(count, words, "by_count")
    for (i = 1; i <= n; i += 400) printf "%s %d\n", words[i], count[words[i]]
    print matched, changed, sum, length(text), moves, length(following), toupper(substr(text, 1, 40))
}
