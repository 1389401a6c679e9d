# Protein sequences: so many relatives of one, in which letters are changed, lost and added.
function below(n) { x = (x * 69069 + 1) % 4294967296; return int(x / 65536) % n }
BEGIN {
    x = 2010; letters = "ARNDCQEGHILKMFPSTWYV"
    for (i = 0; i < length_; i++) first = first substr(letters, 1 + below(20), 1)
    for (n = 1; n <= count; n++) {
        print ">s" n; line = ""
        for (i = 1; i <= length_; i++) {
            way = below(12)
            if (way == 0) continue
            if (way == 1) line = line substr(letters, 1 + below(20), 1)
            line = line (way < 5 ? substr(letters, 1 + below(20), 1) : substr(first, i, 1))
        }
        print line
    }
}
