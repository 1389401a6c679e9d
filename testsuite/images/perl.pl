# Crosses into XS modules and back: callbacks, data structures both ways, strings, numbers.
use strict;
use List::Util qw(sum max first reduce any shuffle uniq pairs);
use Scalar::Util qw(blessed reftype refaddr looks_like_number);
use Data::Dumper;
use POSIX ();
use Storable qw(freeze thaw dclone);
use Encode qw(encode decode);
use Digest::MD5 qw(md5_hex);
use MIME::Base64;
use Time::HiRes ();
my $rounds = shift;
srand 7;
$Data::Dumper::Sortkeys = sub { [ sort keys %{ $_[0] } ] };
package Number { use overload '+' => sub { Number->new($_[0]{n} + (ref $_[1] ? $_[1]{n} : $_[1])) },
    '<=>' => sub { $_[0]{n} <=> (ref $_[1] ? $_[1]{n} : $_[1]) }, '0+' => sub { $_[0]{n} };
    sub new { bless { n => $_[1] }, $_[0] }
    sub STORABLE_freeze { my ($self) = @_; return "n$self->{n}" }
    sub STORABLE_thaw { my ($self, $cloning, $text) = @_; $self->{n} = substr $text, 1 } }
package main;
my ($total, $text) = (0, '');
for my $round (1 .. $rounds) {
    my @numbers = map { ($_ * 7919 + $round) % 1009 } 1 .. 60;
    $total += sum(@numbers) + max(@numbers);
    $total += first { $_ > 500 } @numbers;
    $total += reduce { $a + $b } @numbers;
    $total += 1 if any { $_ == 77 } @numbers;
    $total += scalar(uniq(@numbers)) + (() = pairs(@numbers));
    $total += POSIX::floor($_ / 7) + POSIX::fmod($_, 5) for @numbers[0 .. 20];
    my $data = { list => \@numbers, map { ("k$_" => { n => $_, t => "text $_" }) } 1 .. 12 };
    $text = Dumper($data) . Data::Dumper->new([$data])->Useqq(0)->Indent(1)->Dump;
    my $copy = thaw(freeze($data));
    $total += $copy->{k3}{n} + dclone($data)->{k4}{n};
    $total += looks_like_number($_) ? 1 : 0 for @numbers[0 .. 9];
    $total += length encode('UTF-8', decode('iso-8859-1', join ' ', map { chr(64 + $_ % 190) } @numbers));
    $text .= md5_hex($text) . encode_base64(substr $text, 0, 60);
    my @objects = map { Number->new($_) } @numbers[0 .. 9];
    $total += sum(@objects)->{n} + max(@objects)->{n} + dclone(\@objects)->[3]{n};
    $text .= POSIX::strftime('%Y-%m-%d', gmtime($round * 86400)) . (blessed($objects[0]) // '');
    $total += (sort { $a <=> $b } @numbers)[0] + (sort { ($a % 9) <=> ($b % 9) || $a <=> $b } @numbers)[1];
}
print "$total ", length $text, "\n";
