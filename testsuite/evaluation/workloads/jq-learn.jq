# Another workload than jq.jq: lines become objects that are indexed, joined, flattened and printed as text.
def clean: gsub("\n"; "") | ascii_downcase;
def pairs: to_entries | map("\(.key)=\(.value | tostring)") | join("&");
split("\n")[:$lines] | map(select(length > 0)) as $all
| ($all | to_entries | map({id: .key, text: .value, size: (.value | length)})) as $rows
| (reduce $rows[] as $row ({}; .[$row.text[0:2]] += [$row.id])) as $index
| {
    keys: ($index | keys | length),
    largest: ($index | to_entries | max_by(.value | length) | .key),
    joined: [$rows[:150][] | . as $row | {id, near: ($index[$row.text[0:2]] | map(select(. > $row.id)) | first)}
        | select(.near != null) | pairs] | length,
    flat: [$rows[:200][] | {a: {b: {c: .id}}, d: [.size, [.size + 1]]} | .. | numbers] | add,
    csv: ([$rows[:300][] | [.id, .size, .text[0:5]] | @csv] | join("\n") | length),
    base: ([$rows[:200][] | .text | @base64] | map(length) | add),
    range: ([range(0; 500; 3)] | map(select(. % 2 == 0)) | add),
    until: (7 | until(. > 100000; . * 2 + 1)),
    sorted: ($rows | sort_by(.size, .text) | .[0].id),
    split: ($all[:200] | map(split(" ") | map(ltrimstr("b")) | unique | length) | add),
    paths: ({a: [1, {b: 2}], c: {d: [3, 4]}} | [paths] | length),
    try: [$rows[:100][] | try (if .id % 3 == 0 then error("third") else .id end) catch 1] | add
}
