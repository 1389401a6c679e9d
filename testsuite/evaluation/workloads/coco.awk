# A grammar with so many kinds of statements, each with a keyword and expressions of its own.
BEGIN {
    print "COMPILER Large"
    print "CHARACTERS"
    print "  letter = \"abcdefghijklmnopqrstuvwxyz_\"."
    print "  digit = \"0123456789\"."
    print "  blank = ' '."
    print "TOKENS"
    print "  ident = letter { letter | digit }."
    print "  number = digit { digit } [ '.' digit { digit } ]."
    print "IGNORE blank"
    print "PRODUCTIONS"
    print "Large = Statement { \";\" Statement } ."
    printf "Statement = Rule1"
    for (i = 2; i <= rules; i++) printf " | Rule%d", i
    print " ."
    for (i = 1; i <= rules; i++) {
        printf "Rule%d = \"word%d\" ident [ \"at%d\" Sum%d ] ", i, i, i % 17, i
        printf "( \"is%d\" Sum%d { \",\" Sum%d } | \"do%d\" Statement \"end\" ) .\n", i % 13, i, i % rules + 1, i % 11
        printf "Sum%d = Product%d { ( \"+\" | \"-\" | \"op%d\" ) Product%d } .\n", i, i, i, i
        printf "Product%d = Factor%d { ( \"*\" | \"/\" ) Factor%d } .\n", i, i, i % rules + 1
        printf "Factor%d = ident [ \"(\" Sum%d \")\" ] | number | \"(\" Sum%d \")\" | \"not%d\" Factor%d .\n", i, i, i % rules + 1, i, i
    }
    print "END Large."
}
