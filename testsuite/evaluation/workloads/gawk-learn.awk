# Another workload than gawk.awk: columns, running means, a histogram, strings that are put together, a queue.
function clean(s,    t) { t = tolower(s); gsub(/[^a-z]/, "", t); return t }
function fact(n) { return n < 2 ? 1 : n * fact(n - 1) % 1000003 }
BEGIN { FS = "[ \t]+"; OFS = "-" }
{
    fields += NF
    $2 = clean($1) clean($NF)
    histogram[length($2)]++
    mean = mean * 0.99 + length($0) * 0.01
    queue[++last] = $2
    while (last - first > 50) delete queue[++first]
    if (split($0, letters, "") > 20) for (i = 1; i <= 20; i++) seen[letters[i]] += i
    if (NR % 11 == 0) products += fact(NR % 40)
    if (sprintf("%s:%d", $2, NR) ~ /ab.*:[0-9]*7$/) hits++
    switch (NF % 3) { case 0: zero++; break; case 1: one++; break; default: two++ }
}
END {
    n = asorti(histogram, order, "@ind_num_asc")
    for (i = 1; i <= n; i++) printf "%s=%d ", order[i], histogram[order[i]]
    for (l in seen) sum += seen[l]
    print fields, int(mean), sum, products, hits, zero, one, two, last - first
}
