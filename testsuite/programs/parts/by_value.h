struct big { long word[9]; };
long sums(long a, long b, struct big big, long (*h)(long));
