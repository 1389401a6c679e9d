# Lines of words become records, which are counted, grouped, sorted, searched and rewritten.
def lines: split("\n")[:$lines] | map(select(length > 0) | split(" "));
def record: {first: .[0], words: ., lengths: map(length), sum: (map(length) | add)};
def depth: if type == "array" or type == "object" then 1 + ([.[] | depth] | max // 0) else 0 end;
def fib: if . < 2 then . else (. - 1 | fib) + (. - 2 | fib) end;
def digits: tostring | explode | map(. - 48) | add;
def nest($n): reduce range($n) as $i ([]; {inner: ., number: $i});

lines as $all
| ($all | map(record)) as $records
| {
    count: ($records | length),
    common: ([$all[][]] | group_by(.) | map({word: .[0], times: length}) | sort_by(-.times, .word) | .[:20]),
    longest: ($records | max_by(.sum) | .words | join(" ")),
    by_length: ($records | group_by(.sum) | map({key: (.[0].sum | tostring), value: length}) | from_entries),
    upper: ($records[:200] | map(.first | ascii_upcase | explode | map(. + 1) | implode)),
    changed: ($records[:300] | walk(if type == "number" then . * 2 elif type == "string" then .[:3] else . end)
        | map(.words[0] + (.sum | tostring)) | unique),
    paths: ($records[:100] | [paths(type == "number")] | length),
    text: ($records[:500] | tojson | length),
    back: ($records[:500] | tojson | fromjson | map(.lengths | add) | add),
    depth: (nest(300) | depth),
    fib: (16 | fib),
    numbers: ([limit($lines; range(1; infinite) | select(. % 3 == 0 and digits % 2 == 0) | . * . | sqrt)] | add),
    updated: ($records[:300] | map(.words |= map(select(length > 2)) | del(.lengths) | .sum += 1) | map(.sum) | add)
}
