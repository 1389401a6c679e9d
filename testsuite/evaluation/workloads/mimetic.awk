# A message of so many parts, in groups of ten, of the lines of a text.
function header(kind) {
    print "Content-Type: " kind
    print "Content-Disposition: attachment; filename=\"file" n ".txt\"; size=" n
    print "Content-Transfer-Encoding: " (n % 3 ? "7bit" : "quoted-printable")
    print "X-Note: part " n " (a comment) of all\n that are there"
    print ""
}
BEGIN {
    print "From: \"A. Sender\" <sender@example.org>"
    printf "To: "
    for (i = 1; i <= 200; i++) printf "Receiver %d <receiver%d@example.org>,\n  ", i, i
    print "all: one@example.org, two@example.org;"
    print "Date: Sat, 1 Jan 2000 00:00:00 +0000\nMessage-ID: <1@example.org>\nMIME-Version: 1.0"
    print "Subject: =?utf-8?q?parts?=\nContent-Type: multipart/mixed; boundary=\"outer\"\n"
    print "Preamble."
}
n < parts {
    if (NR % 12 == 1) {
        if (n % 10 == 0) {
            if (n) print "--inner" n / 10 - 1 "--"
            print "\n--outer\nContent-Type: multipart/mixed; boundary=\"inner" n / 10 "\"\n"
        }
        print "\n--inner" int(n / 10)
        header(n % 4 ? "text/plain; charset=us-ascii; format=flowed" : "application/octet-stream; name=data" n)
        n++
    }
    print
}
END { print "--inner" int((n - 1) / 10) "--\n--outer--" }
