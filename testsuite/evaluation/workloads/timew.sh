# timew.sh DAYS ROUNDS: times that were kept in so many days of a month are printed, summed up and added to, again and again.
export TIMEWARRIORDB="$PWD/kept"
mkdir -p kept/data
touch kept/timewarrior.cfg
awk -v days="$1" 'BEGIN {
    for (day = 1; day <= days; day++)
        for (quarter = 24; quarter < 84; quarter++) {
            hour = sprintf("202002%02dT%02d", day, quarter / 4)
            begin = quarter % 4 * 15
            printf "inc %s%02d00Z - %s%02d00Z # tag%d \"tag with blanks %d\"\n", hour, begin, hour, begin + 10, quarter % 7, day % 3
        }
}' > kept/data/2020-02.data
for round in $(seq "$2"); do
    "$EXE" export
    "$EXE" summary 2020-02-01 - 2020-03-01 :ids
    "$EXE" tags
    "$EXE" track "2020-02-01T22:$((round + 10))" - "2020-02-01T22:$((round + 11))" extra
    "$EXE" summary 2020-02-01 - 2020-03-01 tag3
done
