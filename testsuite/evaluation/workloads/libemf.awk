# A metafile whose records, but for the first and the last one, are there so many times. It comes as decimal bytes.
function at(i) { return byte[i] + 256 * (byte[i + 1] + 256 * (byte[i + 2] + 256 * byte[i + 3])) }
function put(from, to) { for (; from < to; from++) printf "%c", byte[from] }
function set(i, value) { for (j = 0; j < 4; j++) { byte[i + j] = value % 256; value = int(value / 256) } }
{ for (i = 1; i <= NF; i++) byte[n++] = $i }
END {
    for (i = 0; i < n && at(i + 4) > 0; i += at(i + 4)) { last = i; records++ }
    first = at(4)
    set(48, first + times * (last - first) + n - last)
    set(52, times * (records - 2) + 2)
    put(0, first)
    for (k = 0; k < times; k++) put(first, last)
    put(last, n)
}
