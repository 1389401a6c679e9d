# Another workload than perl.pl: columns of a table, templates, a state machine, sorting of records, closures over
# hashes of hashes, packing. Arguments: a text, and how many of its lines.
use strict;
use warnings;
my ($file, $lines) = @ARGV;
open my $in, '<', $file or die "$file: $!";
my (@rows, %by_length);
while (my $line = <$in>) {
    last if $. > $lines;
    chomp $line;
    my @fields = split ' ', $line;
    push @rows, { number => $., first => $fields[0] // '', count => scalar @fields, text => $line };
    push @{ $by_length{ length $_ } }, $_ for @fields;
}
for my $length (sort { $a <=> $b } keys %by_length) {
    my @words = sort @{ $by_length{$length} };
    printf "%d: %d %s\n", $length, scalar @words, $words[0] if $length % 3 == 0;
}
my %template = (number => sub { sprintf '%05d', $_[0]{number} }, first => sub { ucfirst $_[0]{first} },
    count => sub { '#' x ($_[0]{count} % 9) });
my $out = '';
for my $row (@rows) {
    my $page = '<tr><td>{number}</td><td>{first}</td><td>{count}</td></tr>';
    $page =~ s/\{(\w+)\}/$template{$1}->($row)/ge;
    $out .= $page;
}
print length $out, "\n";
my ($state, %seen) = ('start');
my %next = (start => { a => 'vowel', e => 'vowel', ' ' => 'start' }, vowel => { n => 'end', t => 'end' }, end => {});
for my $row (@rows) {
    for my $letter (split //, substr $row->{text}, 0, 30) {
        $state = $next{$state}{$letter} // 'start';
        $seen{$state}++;
    }
}
print join(' ', map { "$_=$seen{$_}" } sort keys %seen), "\n";
my @sorted = sort { $a->{count} <=> $b->{count} or $b->{first} cmp $a->{first} or $a->{number} <=> $b->{number} } @rows;
print join(',', map { $_->{number} } @sorted[0 .. 9]), "\n";
my $packed = join '', map { pack 'NnC', $_->{number}, $_->{count}, length($_->{first}) & 255 } @rows;
my $sum = 0;
while (length $packed) {
    my ($n, $c, $l) = unpack 'NnC', substr $packed, 0, 7, '';
    $sum = ($sum * 31 + $n + $c * $l) % 1_000_003;
}
print "$sum\n";
local $@;
for my $row (@rows) { eval { die "odd\n" if $row->{number} % 50 == 0; 1 } or $sum++ }
print join('|', reverse map { lc } grep { /^[A-Za-z]/ } map { $_->{first} } @rows[0 .. 20]), "\n";
