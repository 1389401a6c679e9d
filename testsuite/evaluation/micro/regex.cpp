// A matcher of regular expressions by recursion over the pattern, with backtracking.

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

enum Kind : unsigned char { Character, Any, Class, Group, End };

struct Piece {
    Kind kind;
    bool negated;
    char character;
    unsigned least, most;
    const char *set;
    // Of a group: its alternatives.
    Piece *first, *second;
    Piece *next;
};

struct Text {
    const char *begin, *end;
    unsigned long steps;
};

bool match(const Piece *piece, const char *at, Text *text, const Piece *behind);

bool fits(const Piece *piece, char c) {
    switch (piece->kind) {
    case Character: return c == piece->character;
    case Any: return c != '\n';
    case Class: return (strchr(piece->set, c) != nullptr) != piece->negated;
    default: return false;
    }
}

bool repeat(const Piece *piece, unsigned done, const char *at, Text *text, const Piece *behind) {
    if (done < piece->most && at < text->end && fits(piece, *at) &&
        repeat(piece, done + 1, at + 1, text, behind)) {
        return true;
    }
    return done >= piece->least && match(piece->next, at, text, behind);
}

bool match(const Piece *piece, const char *at, Text *text, const Piece *behind) {
    text->steps++;
    if (!piece) {
        return behind ? match(behind, at, text, nullptr) : true;
    }
    switch (piece->kind) {
    case End: return at == text->end;
    case Group: return match(piece->first, at, text, piece->next) || match(piece->second, at, text, piece->next);
    default: return repeat(piece, 0, at, text, behind);
    }
}

Piece *piece(Kind kind, char character, const char *set, unsigned least, unsigned most, Piece *next) {
    return new Piece{kind, false, character, least, most, set, nullptr, nullptr, next};
}

} // namespace

int main(int, char **arguments) {
    unsigned n = atoi(arguments[1]), state = 7;
    // [aeiou]*.{0,3}(ba+n|[kt]o?)[a-m]+x
    Piece *end = piece(Character, 'x', nullptr, 1, 1, nullptr);
    Piece *tail = piece(Class, 0, "abcdefghijklm", 1, 1000, end);
    Piece *one = piece(Character, 'n', nullptr, 1, 1, nullptr);
    one = piece(Character, 'b', nullptr, 1, 1, piece(Character, 'a', nullptr, 1, 9, one));
    Piece *other = piece(Class, 0, "kt", 1, 1, piece(Character, 'o', nullptr, 0, 1, nullptr));
    Piece *group = piece(Group, 0, nullptr, 1, 1, tail);
    group->first = one;
    group->second = other;
    Piece *pattern = piece(Class, 0, "aeiou", 0, 1000, piece(Any, 0, nullptr, 0, 3, group));
    char *line = new char[200];
    unsigned long found = 0, steps = 0;
    for (unsigned i = 0; i < n; i++) {
        for (unsigned k = 0; k < 120; k++) {
            state = state * 1664525 + 1013904223;
            line[k] = "abaaeionktbcdmxnaa"[(state >> 16) % 18];
        }
        Text text = {line, line + 120, 0};
        for (const char *at = line; at < text.end; at++) {
            found += match(pattern, at, &text, nullptr);
        }
        steps += text.steps;
    }
    printf("%lu %lu\n", found, steps);
}
