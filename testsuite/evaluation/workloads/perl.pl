# Recursion, hashes, regular expressions, sorting, objects with virtual methods, closures, eval and die
# (longjmp), string building. Deterministic; prints sums. Arguments: a text, and how many of its lines.
use strict;
my ($file, $lines) = @ARGV;

sub ackermann {
    my ($m, $n) = @_;
    return $m == 0 ? $n + 1 : $n == 0 ? ackermann($m - 1, 1) : ackermann($m - 1, ackermann($m, $n - 1));
}
sub tree { my $d = shift; return $d ? { l => tree($d - 1), r => tree($d - 1), d => $d } : undef }
sub weight { my $t = shift; return $t ? $t->{d} + weight($t->{l}) + weight($t->{r}) : 0 }
no warnings 'recursion';
print "ackermann ", ackermann(2, 60), "\n";
my $weight = 0;
$weight += weight(tree(10)) for 1 .. 1 + $lines / 4000;
print "trees $weight\n";

my (%count, $matched, $swapped, $folded);
open my $in, '<', $file or die "$file: $!";
while (<$in>) {
    last if $. > $lines;
    chomp;
    for my $word (split / /) {
        $count{$word}++;
        $matched++ if $word =~ /^[b-m]a.*(?:ta|na)$/;
    }
    my $line = $_;
    $line =~ s/([aeiou])([^aeiou ])/$2$1/g;
    $swapped += length $line if $line =~ /(\w)\1/;
    $folded += () = $line =~ /\b(\w)\w*\1\b/g;
}
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print "words @top[0 .. 5] ", scalar(@top), " $matched $swapped $folded\n";

package Shape { sub new { my ($class, @size) = @_; return bless { size => \@size }, $class } sub area { 0 } }
package Square { our @ISA = ('Shape'); sub area { $_[0]{size}[0]**2 } }
package Box { our @ISA = ('Shape'); sub area { $_[0]{size}[0] * $_[0]{size}[1] } }
package main;
my @shapes = map { $_ % 3 ? Box->new($_ % 17, $_ % 5) : Square->new($_ % 11) } 1 .. 1000;
my $area = 0;
for my $round (1 .. $lines / 400) { $area += $_->area for @shapes }
print "area $area\n";

my @adders = map { my $by = $_; sub { $_[0] + $by } } 1 .. 10;
my $sum = 0;
for my $i (1 .. $lines * 2) { $sum = $adders[$i % 10]->($sum) }
print "closures $sum\n";

my ($fine, $failed) = (0, 0);
sub risky { my $n = shift; die { code => $n } if $n % 3 == 0; die "text\n" if $n % 7 == 0; return 1 }
for my $i (1 .. $lines / 2) {
    eval { risky($i); $fine++; 1 } or $failed += ref $@ ? $@->{code} % 5 : 1;
}
print "eval $fine $failed\n";

my $text = join ',', map { sprintf '%04x', $_ * 7919 % 65521 } 1 .. $lines;
print "text ", length($text), ' ', unpack('%32C*', $text), "\n";
